// `tandem constraint-worker`: a process that compiles an engine's constraints.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// `args` are the arguments after the command's name; returns the exit status.
int run_constraint_worker(const std::vector<std::string>& args);

}  // namespace tandem
