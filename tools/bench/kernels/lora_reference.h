// The reference for the timed LoRA cases: plain loops in float on the GPU, one thread per result.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/ops.h"

namespace tandem::kernels {

// Compares args.out[0] (bf16), as an operation left it, with `before` (the same shape, dense) plus
// the delta. Sets *worst (device memory) to the largest |got - want| / (absolute + relative
// |want|); infinity for a NaN. Requires one module, addresses in the table, and every row in a
// segment. `v` is work space: f32 [num_rows, max_rank].
Status judge_lora(const LoraArgs& args, const void* before, float* v, float absolute,
                  float relative, float* worst, cudaStream_t stream);

}  // namespace tandem::kernels
