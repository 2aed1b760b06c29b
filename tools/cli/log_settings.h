// Settings of a command's log.
#pragma once

#include <string>

#include "base/settings/settings.h"

namespace tandem {

struct LogSettings {
  std::string log_level = "info";   // parsed by log::Levels
  std::string log_format = "text";  // or json
};

void add_log_settings(SettingsTable& table, LogSettings& settings);
// Requires settings that the table has validated.
void set_up_log(const LogSettings& settings);

}  // namespace tandem
