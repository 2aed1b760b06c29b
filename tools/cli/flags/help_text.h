// What `tandem NAME --help` prints.
#pragma once

#include <string>

#include "tools/cli/flags/flags.h"

namespace tandem {

// Lines of up to 96 columns, where words allow it. `all`: with the settings for experts.
std::string help_text(const CommandInfo& command, const SettingsTable& table, bool all = false);

}  // namespace tandem
