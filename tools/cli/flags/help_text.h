// The text that `tandem NAME --help` prints.
#pragma once

#include <string>

#include "tools/cli/flags/flags.h"

namespace tandem {

// Returns lines of at most 96 columns where words allow it. `all`: with settings for experts.
std::string help_text(const CommandInfo& command, const SettingsTable& table, bool all = false);

}  // namespace tandem
