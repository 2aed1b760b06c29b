// The biases of LoRA modules (PEFT's lora_bias), which lie behind the rows of B.
#pragma once

#include "gpu/cuda/lora/kernels/params.h"

namespace tandem::cuda {

// y[t] += bias of the row's adapter, for every module that has one. Goes behind enqueue_lora() of
// the same parameters with segments; not for the half `shrink`.
cudaError_t enqueue_bias(const LoraParams& params, cudaStream_t stream);

}  // namespace tandem::cuda
