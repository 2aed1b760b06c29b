// The speed at which a GPU copies its own memory: the yardstick for memory-bound benchmarks.
#pragma once

#include "base/status.h"

namespace tandem {

// Bytes read plus bytes written per second when 1 GiB is copied within the memory of GPU `gpu`: the
// median of many copies, at the best of a few places, since the place in memory makes a difference
// of a tenth. Uses 4 GiB while it runs. Fails in a build without CUDA.
Result<double> measure_cuda_copy_speed(int gpu);

}  // namespace tandem
