// The LoRA operation at the embedding and the head: rows by token, and whole weights.
#pragma once

#include "gpu/cuda/lora/kernels/params.h"

namespace tandem::cuda {

// As LoraPart (gpu/ops.h); shrink: by ids.
enum class OuterPart : std::int32_t { shrink, replace, tokens };

struct OuterParams {
  const std::int32_t* ids = nullptr;  // [T]; null: x is in memory
  float id_scale = 1;
  OuterPart part = OuterPart::shrink;
};

// As enqueue_lora(), for one module. `params`: of LoraPart::replace or LoraPart::tokens, or of the
// half `shrink`.
cudaError_t enqueue_outer(const LoraParams& params, const OuterParams& outer, cudaStream_t stream);

}  // namespace tandem::cuda
