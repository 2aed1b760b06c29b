// The reference for the timed GEMMs: plain loops in float on the GPU, one warp per result.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/ops.h"

namespace tandem::kernels {

// Compares args.y, as an operation left it, with x w^T (plus `before`, in y's layout, if
// `accumulate`). Sets *worst (device memory) to the largest |got - want| / (absolute + relative
// |want|); infinity for a NaN. x and w are bf16, y is bf16 or f32; all dense; no bias.
Status judge_gemm(const GemmArgs& args, const void* before, float absolute, float relative,
                  float* worst, cudaStream_t stream);

}  // namespace tandem::kernels
