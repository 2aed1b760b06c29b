// The speed of NVIDIA's NCCL all-reduce, with which our own all-reduce is compared.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace tandem {

// Seconds of one all-reduce of that many bf16 elements, for each of `counts`: the median of
// `rounds` launches of a CUDA graph of `calls` such operations, by the clock of the GPU that began
// last. It is the sum alone, in place. NCCL is not linked but loaded at run time (libnccl.so.2);
// `unavailable`: it was not found, or this build has no CUDA.
Result<std::vector<double>> measure_nccl_all_reduce(std::span<const int> gpus,
                                                    std::span<const std::int64_t> counts, int calls,
                                                    int rounds);

}  // namespace tandem
