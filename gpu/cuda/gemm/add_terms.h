#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "base/tensor.h"

namespace tandem::cuda {

// y[t, i] = (y[t, i] if `accumulate`) + (product[t, i]) + (bias[i]), rounded once. A term of rank 0
// is left out. product is f32 [T, n], dense; bias is [n] in the compute dtype; y is [T, n] in the
// compute dtype or f32, with strided rows.
Status launch_add_terms(const TensorView& product, const TensorView& bias, const TensorView& y,
                        bool accumulate, cudaStream_t stream);

}  // namespace tandem::cuda
