// `tandem profile`: measures machine and model for the planner of cold starts.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// `args` are the arguments after the command's name; returns the exit status.
int run_profile(const std::vector<std::string>& args);

}  // namespace tandem
