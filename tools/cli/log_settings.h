// What commands are told of their log.
#pragma once

#include <string>

#include "base/settings/settings.h"

namespace tandem {

struct LogSettings {
  std::string log_level = "info";   // as log::Levels reads it
  std::string log_format = "text";  // or json
};

void add_log_settings(SettingsTable& table, LogSettings& settings);
// Requires that the table they were read by is valid.
void set_up_log(const LogSettings& settings);

}  // namespace tandem
