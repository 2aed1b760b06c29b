// `tandem bench`: picks the benchmark.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Takes the arguments after its own name; returns the exit status.
int run_bench(const std::vector<std::string>& args);

}  // namespace tandem
