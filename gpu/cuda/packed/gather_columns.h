// The columns of x in the order of a packed weight's.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "base/tensor.h"

namespace tandem::cuda {

// out[t, i] = x[t, order[i]], both of one 16-bit dtype; `out` is dense. Enqueues; never allocates
// or synchronises. `order` is a weight's: nothing may write it on the stream.
Status launch_gather_columns(const TensorView& x, const std::int32_t* order, const TensorView& out,
                             cudaStream_t stream);

}  // namespace tandem::cuda
