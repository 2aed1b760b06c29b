// `tandem constraint-worker`: a process that compiles an engine's constraints.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Takes the arguments after its own name; returns the exit status.
int run_constraint_worker(const std::vector<std::string>& args);

}  // namespace tandem
