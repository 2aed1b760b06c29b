// Brings packed weights into the layout of layout.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "base/status.h"
#include "gpu/weight.h"

namespace tandem::cuda {

// The memory that arrange_weight() works in.
std::size_t bytes_to_arrange(const Weight& weight);

// Rewrites the arrays in place and sets weight.arranged; leaves a weight as it is that
// can_arrange() does not support. Returns once the stream has passed.
Status arrange_weight(Weight& weight, std::byte* scratch, cudaStream_t stream);

}  // namespace tandem::cuda
