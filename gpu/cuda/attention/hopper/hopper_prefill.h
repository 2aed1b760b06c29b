// Attention of prompts with warpgroup products: FlashInfer's FlashAttention-3 kernel (Shah et al.,
// 2024) over the paged cache, driven by this project's plan. Requires compute capability 9.0.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// One tile, for each query head: hopper_prefill_rows() rows, the tile-th such piece of a sequence.
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
  std::int32_t processors = 0;  // the GPU's multiprocessors: one block each
};

// True if there is a window, a softcap or a sink.
bool is_bounded(const AttentionArgs& args);
// Rows of a sequence per tile; 0: this build or this head size has no such kernel. `bounded`: some
// layers are; the rows of the others are the same.
std::int32_t hopper_prefill_rows(DType dtype, std::int64_t head_dim, bool bounded);
// Called once before the first launch, on a GPU of compute capability 9.0.
Status prepare_hopper_prefill();
// Takes bf16 or f16; rows of q and keys at multiples of 16 bytes; dense `out`. Enqueues; never
// allocates or synchronises. Must not be captured: the copy engine's descriptor holds q's address.
Status launch_hopper_prefill(const HopperPrefillArgs& args, cudaStream_t stream);

}  // namespace tandem::cuda
