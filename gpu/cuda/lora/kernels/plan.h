// Divides a step of LoRA over the GPU: which kernel, and how many blocks share a tile of rows.
#pragma once

#include <cstdint>

#include "gpu/cuda/lora/kernels/params.h"

namespace tandem::cuda {

struct LoraGpu {
  int major = 0;  // compute capability; clusters and dependent launch need 9
};

// bgmv: tiles of 8 rows in which every adapter's loops run to max_rank (Punica's padding, for which
// no bytes are read). mbgmv: the same without padding (S-LoRA's), so never slower than bgmv, which
// is for comparison. sgmv: tiles of 32 or 64 rows (sgmv.cuh). All three multiply on tensor cores.
// Halves always use tiles of 8 rows.
enum class LoraKernel { automatic, bgmv, mbgmv, sgmv };

// Depends only on plain integers of `params`, so a captured launch is valid for any contents.
LoraCut plan_lora(const LoraParams& params, const LoraGpu& gpu, LoraKernel kernel);

// Enqueues one kernel, or none for an empty step.
cudaError_t launch_cut(const LoraParams& params, const LoraCut& cut, cudaStream_t stream);
// Plans for the calling thread's current device, and launches. `overlap`: see base/launch.h.
cudaError_t enqueue_lora(const LoraParams& params, LoraKernel kernel, bool overlap,
                         cudaStream_t stream);

}  // namespace tandem::cuda
