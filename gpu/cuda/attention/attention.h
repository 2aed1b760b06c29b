// Attention over the paged cache on CUDA: the plan of a step and the launches of its layers.
//
// Decode rows and short chunks go to the tiled kernel (tiled.cuh), long chunks to one of
// FlashInfer's prefill kernels (hopper/, or prefill.cuh), and the rest (f32, head sizes other than
// 64, 96, 128 and 256, a step beyond AttentionLimits) to the simple kernel. All are correct for any
// mix.
//
// The reason for a decode kernel of our own: it was faster than FlashInfer 0.6.7's in every shape
// tried on an H200 (32 and 8 KV heads, batch 1 to 32, contexts of 512 and 32768). `tandem bench
// kernels --only attention` times both kinds of step.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "base/status.h"
#include "gpu/cuda/attention/attention_planner.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// One stream's attention; used by one thread at a time, like the stream. Owns device memory for one
// plan (0.8 MB for 16384 items, 0.3 MB of prefill arrays) and for the partial results of 4 x 2
// blocks per multiprocessor (16 rows of at most 258 floats each: 17 MB on 132 multiprocessors), and
// kRing pinned plans.
class Attention {
 public:
  static Result<std::unique_ptr<Attention>> create(const AttentionLimits& limits = {});
  ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  // Copies the plan to the device, always to the same address, so that the graph of a captured plan
  // replays with the latest plan for the same number of rows and sequences. Never allocates device
  // memory; only waits if kRing plans are enqueued that the stream has not reached yet.
  Status plan(const AttentionPlan& plan, cudaStream_t stream);

  // Requires a plan() of the same step on the same stream. Rows of q start at multiples of 16
  // bytes, `out` is dense, and the heads are those of the plan; otherwise the simple kernel is
  // used, which is far slower. May be captured.
  Status run(const AttentionArgs& args, cudaStream_t stream);

 private:
  static constexpr int kRing = 8;  // a plan is overwritten kRing plans later

  struct Slot {
    std::byte* pinned = nullptr;
    cudaEvent_t copied = nullptr;  // when the copy out of `pinned` is done
  };

  Attention(std::int32_t num_processors, bool hopper, const AttentionLimits& limits);
  Status allocate();

  const std::int32_t num_processors_;
  const bool hopper_;
  AttentionPlanner planner_;
  PlannedAttention planned_;
  // The heads of the plan, their number and size.
  std::int64_t heads_ = 0;
  std::int64_t kv_heads_ = 0;
  std::int64_t head_dim_ = 0;
  std::array<Slot, kRing> ring_;
  int next_ = 0;
  std::byte* plan_ = nullptr;         // device, planner_.max_bytes()
  float* partial_ = nullptr;          // device
  std::uint32_t* arrived_ = nullptr;  // device
};

}  // namespace tandem::cuda
