// tandem pick.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/flags/flags.h"

namespace tandem {

CommandInfo pick_command();

// Reads the settings, and becomes the program `tandem-pick` beside this one, which has gRPC in it.
// Returns the exit status where a setting is wrong, or this build has no such program.
int run_pick(const std::vector<std::string>& args);

}  // namespace tandem
