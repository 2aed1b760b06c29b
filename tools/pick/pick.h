// The command `tandem pick`.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/flags/flags.h"

namespace tandem {

CommandInfo pick_command();

// Reads the settings and replaces this process by the program `tandem-pick` beside it, which links
// gRPC. Returns an exit status only if a setting is wrong or this build has no such program.
int run_pick(const std::vector<std::string>& args);

}  // namespace tandem
