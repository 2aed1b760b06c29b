// The keys that a config file may have, whichever command reads it.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/flags/flags.h"

namespace tandem {

// Returns the keys of these commands and of their subcommands, each once. Asks all of them for
// help, so do not call it while a HelpReader exists.
std::vector<std::string> file_keys(const Subcommands& commands);

}  // namespace tandem
