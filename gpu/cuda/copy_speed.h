// How fast a GPU copies its own memory: what benchmarks judge memory-bound work by.
#pragma once

#include "base/status.h"

namespace tandem {

// Bytes read plus bytes written per second of copies of 1 GiB within the memory of GPU `gpu`: the
// median of many, and the best of a few places, since where memory lies makes a tenth of a
// difference. Takes 4 GiB for the time. Fails in a build without CUDA.
Result<double> measure_cuda_copy_speed(int gpu);

}  // namespace tandem
