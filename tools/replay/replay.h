// tandem replay.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Runs the command; returns the exit status.
int run_replay(const std::vector<std::string>& args);

}  // namespace tandem
