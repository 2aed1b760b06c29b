#pragma once

#include <cuda_runtime_api.h>

#include "engine/base/status.h"
#include "engine/base/tensor.h"

namespace tandem::cuda {

// y[t, i] = bias[i], or += when `accumulate`. y [T, n] f32 or compute dtype, rows strided; bias [n]
// of any compute dtype. For the products whose library epilogue does not take this bias.
Status launch_add_bias(const TensorView& bias, const TensorView& y, bool accumulate,
                       cudaStream_t stream);

}  // namespace tandem::cuda
