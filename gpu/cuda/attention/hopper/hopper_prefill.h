// Attention of prompts by products of warpgroups: FlashInfer's FlashAttention-3 kernel (Shah et
// al., 2024) over the paged cache, fed with this project's plan. For compute capability 9.0 alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// One tile: rows tile * hopper_prefill_rows() and on of a sequence, for each query head.
struct PromptTile {
  std::int32_t first_row;  // the sequence's first row in q and out
  std::int32_t num_rows;   // as AttentionSequence
  std::int32_t kv_len;     // as AttentionSequence
  std::int32_t pages;      // as AttentionSequence
  std::int32_t tile;
};

struct HopperPrefillArgs {
  AttentionArgs attention;
  const PromptTile* tiles = nullptr;  // device, [num_tiles], most keys first
  std::int32_t num_tiles = 0;
  std::int32_t processors = 0;  // the GPU's: a block each
};

// Rows of a sequence in a tile; 0: this build or these heads have no such kernel.
std::int32_t hopper_prefill_rows(DType dtype, std::int64_t head_dim);
// Once, on a GPU of compute capability 9.0, before the first launch.
Status prepare_hopper_prefill();
// bf16 or f16, whose rows of q and keys start at multiples of 16 bytes; `out` dense. Enqueues;
// never allocates or synchronises. Not to be captured: q's address is told to the copy engine.
Status launch_hopper_prefill(const HopperPrefillArgs& args, cudaStream_t stream);

}  // namespace tandem::cuda
