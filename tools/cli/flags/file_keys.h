// Which keys a config file may have, whichever command reads it.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/flags/flags.h"

namespace tandem {

// The keys of these commands and of those below them, each once. Goes through all their help: not
// while a HelpReader lives.
std::vector<std::string> file_keys(const Subcommands& commands);

}  // namespace tandem
