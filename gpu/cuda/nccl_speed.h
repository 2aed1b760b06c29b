// How fast NVIDIA's NCCL adds up what GPUs have: what our own all-reduce is put beside.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace tandem {

// Seconds of one all-reduce of so many bf16 elements, for each of `counts`: the median of `rounds`
// launches of a CUDA graph of `calls` of them, by the clock of the GPU that began last. The sum
// alone, in place. NCCL is not linked but looked for (libnccl.so.2); unavailable: it is not found,
// or this build has no CUDA.
Result<std::vector<double>> measure_nccl_all_reduce(std::span<const int> gpus,
                                                    std::span<const std::int64_t> counts, int calls,
                                                    int rounds);

}  // namespace tandem
