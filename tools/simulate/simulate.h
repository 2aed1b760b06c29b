// tandem simulate.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Runs the command; returns the exit status.
int run_simulate(const std::vector<std::string>& args);

}  // namespace tandem
