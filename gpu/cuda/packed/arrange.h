// Brings packed weights into the layout of layout.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "base/status.h"
#include "gpu/weight.h"

namespace tandem::cuda {

// Rewrites the arrays in place and sets weight.arranged; leaves a weight as it is that
// can_arrange() does not support, or whose scales exceed the scratch memory. Returns once the
// stream has passed.
Status arrange_weight(Weight& weight, std::byte* scratch, std::size_t scratch_bytes,
                      cudaStream_t stream);

}  // namespace tandem::cuda
