// `tandem bench kernels`: single CUDA kernels.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Takes the arguments after its own name; returns the exit status.
int run_bench_kernels(const std::vector<std::string>& args);

}  // namespace tandem
