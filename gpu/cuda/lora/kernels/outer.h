// The parts of the LoRA operation that replace what the base computes: whole weights, rows by
// token, and biases.
#pragma once

#include "gpu/cuda/lora/kernels/params.h"

namespace tandem::cuda {

// As LoraPart (gpu/ops.h); shrink: by ids.
enum class OuterPart : std::int32_t { shrink, replace, tokens, biases };

struct OuterParams {
  const std::int32_t* ids = nullptr;  // [T]; null: x is in memory
  float id_scale = 1;
  OuterPart part = OuterPart::shrink;
  const void* base_bias[LoraParams::kMaxModules] = {};  // [out of m], dtype of x; null: 0
};

// As enqueue_lora(), for one module but for biases. `params`: of LoraPart::replace,
// LoraPart::tokens or LoraPart::biases, or of the half `shrink`.
cudaError_t enqueue_outer(const LoraParams& params, const OuterParams& outer, cudaStream_t stream);

}  // namespace tandem::cuda
