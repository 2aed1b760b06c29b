#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "base/tensor.h"
#include "gpu/weight.h"

namespace tandem::cuda {

// True if the weight is arranged and has no order, and the rows of `out` are vectors of 16 bytes.
bool can_unpack_arranged(const Weight& weight, const TensorView& out);

// As launch_unpack, for what can_unpack_arranged() allows, in far fewer instructions.
Status launch_unpack_arranged(const Weight& weight, std::int64_t first_row, const TensorView& out,
                              cudaStream_t stream);

}  // namespace tandem::cuda
