// `tandem worker`: one CPU worker of an engine.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Takes the arguments after its own name; returns the exit status.
int run_worker(const std::vector<std::string>& args);

}  // namespace tandem
