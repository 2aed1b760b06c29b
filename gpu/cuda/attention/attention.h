// Attention over the paged cache on CUDA: the plan of a step and the launches of its layers.
//
// Decode rows and short chunks go to the tiled kernel (tiled.cuh), long chunks to one of
// FlashInfer's prefill kernels (hopper/, or prefill.cuh), and the rest (f32, head sizes other than
// 64, 96, 128, 256 and 512, a step beyond AttentionLimits) to the simple kernel. All are correct
// for any mix.
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

// One stream's attention; used by one thread at a time, like the stream. Owns device memory for
// kAttentionPlans plans (0.8 MB for 16384 items, 0.3 MB of prefill arrays each) and for the partial
// results of 4 x 2 blocks per multiprocessor (16 rows of at most 258 floats each, and twice that
// for heads of 512: 17 MB on 132 multiprocessors), and kRing pinned plans.
class Attention {
 public:
  static Result<std::unique_ptr<Attention>> create(const AttentionLimits& limits = {});
  ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  // Copies the plan to the device, to the same address as all plans of these heads, so that the
  // graph of a captured plan replays with the latest plan for the same number of rows and
  // sequences. Of more than kAttentionPlans shapes, the one first planned gives way, and
  // graphs with its plan must not be launched any more. Never
  // allocates device memory; only waits if kRing plans are enqueued that the stream has not reached
  // yet.
  Status plan(const AttentionPlan& plan, cudaStream_t stream);

  // Requires a plan() of the same step and heads on the same stream. Rows of q start at multiples
  // of 16 bytes, and `out` is dense; otherwise the simple kernel is used, which is far slower. May
  // be captured.
  Status run(const AttentionArgs& args, cudaStream_t stream);

 private:
  static constexpr int kRing = 8;  // a pinned plan is overwritten kRing plans later

  struct Slot {
    std::byte* pinned = nullptr;
    cudaEvent_t copied = nullptr;  // when the copy out of `pinned` is done
  };

  // The latest plan of the layers whose heads have one shape.
  struct Plan {
    std::int64_t heads = 0;  // 0: not used
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    PlannedAttention planned;
    std::byte* bytes = nullptr;  // device, planner_.max_bytes()
  };

  Attention(std::int32_t num_processors, bool hopper, const AttentionLimits& limits);
  Status allocate();
  // Null: there is no plan of these heads.
  Plan* plan_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim);

  const std::int32_t num_processors_;
  const bool hopper_;
  AttentionPlanner planner_;
  std::array<Plan, kAttentionPlans> plans_;
  std::size_t next_plan_ = 0;  // gives way to other heads
  std::array<Slot, kRing> ring_;
  int next_ = 0;
  float* partial_ = nullptr;          // device
  std::uint32_t* arrived_ = nullptr;  // device
};

}  // namespace tandem::cuda
