// `tandem bench kernels`: single CUDA kernels.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// `args` are the arguments after the command's name; returns the exit status.
int run_bench_kernels(const std::vector<std::string>& args);

}  // namespace tandem
