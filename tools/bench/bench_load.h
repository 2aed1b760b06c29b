// `tandem bench load`: reading a checkpoint against the memory's speed.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Takes the arguments after its own name; returns the exit status.
int run_bench_load(const std::vector<std::string>& args);

}  // namespace tandem
