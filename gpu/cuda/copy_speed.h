// How fast a GPU copies its own memory: what benchmarks judge memory-bound work by.
#pragma once

#include "engine/base/status.h"

namespace tandem {

// Bytes read plus bytes written per second of copies of 1 GiB within the memory of GPU `gpu`, the
// median of several; takes 2 GiB of it for the time. Fails in a build without CUDA.
Result<double> measure_cuda_copy_speed(int gpu);

}  // namespace tandem
