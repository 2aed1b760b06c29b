// `tandem bench load`: compares reading a checkpoint with the memory's speed.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// `args` are the arguments after the command's name; returns the exit status.
int run_bench_load(const std::vector<std::string>& args);

}  // namespace tandem
