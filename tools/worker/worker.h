// `tandem worker`: one CPU worker of an engine.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// `args` are the arguments after the command's name; returns the exit status.
int run_worker(const std::vector<std::string>& args);

}  // namespace tandem
