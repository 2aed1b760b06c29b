// The handoff operations (OfferArgs and AcceptArgs in gpu/ops.h) on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "gpu/cuda/base/device_memory.h"
#include "gpu/cuda/collectives/group.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// What blocks and kernels of a stream tell each other, per group. They know each other's jobs by
// their sequences: no stream meets one twice, so what an earlier job left passes for no later
// one's.
struct HandoffScratch {
  std::uint32_t offered[kMaxColdGroups];  // parts of an offer that are done; zero between launches
  std::uint64_t given[kMaxColdGroups];    // a doorbell: an offer's sequence and the ticket it gave
  std::uint64_t verdict[kMaxColdGroups];  // an accept's sequence << 1 | whether all have answered
  // Of ranks: what holds of a group on all of them, as the offer's first kernel found.
  // KnownOfGroup.
  std::uint32_t agreed[kMaxColdGroups];
};

// Bits of what is known of a group as an offer runs.
enum KnownOfGroup : std::uint32_t { kHasA = 1, kHasB = 2, kIsBroken = 4 };

// Which of the ranks that share the model.
struct HandoffRank {
  std::int32_t index = 0;
  std::int32_t of = 1;
};
inline HandoffRank rank_of(const HandoffJob& job) {
  if (job.communicator == nullptr) return {};
  return {job.communicator->rank(), job.communicator->size()};
}

// One per stream. Enqueues; never synchronises; allocates only when an accept has more v than any
// before it (kFirstV bytes are there from the start). Metadata (turns, groups, segments, rows)
// may be read while the kernel before still runs: copies and uploads may write it, other kernels
// not. Launches depend on nothing that is in device memory, so recorded ones serve every turn.
class Handoff {
 public:
  static Result<std::unique_ptr<Handoff>> create();

  // `end`: of the communicator that the args name, if they do.
  Status offer(const OfferArgs& args, const GroupEnd* end, cudaStream_t stream);
  Status accept(const AcceptArgs& args, cudaStream_t stream);

  static constexpr std::size_t kFirstV = std::size_t{4} << 20;

 private:
  Handoff() = default;
  HandoffScratch* scratch() const { return reinterpret_cast<HandoffScratch*>(scratch_.get()); }
  Status reach_host_memory() const;
  Status reserve_v(const AcceptArgs& args);

  DeviceMemory scratch_;
  DeviceMemory v_;
  std::size_t v_bytes_ = 0;
  // Accepts that still run, and recordings, which may run again, hold their addresses. Sizes
  // double, so all of them together are less than v_.
  std::vector<DeviceMemory> outgrown_v_;
  bool reaches_host_memory_ = false;
};

// ranks.cu, around the offer of ranks that share a model: they agree before it on what is known of
// the groups (scratch->agreed). After it, where each has written its columns of x, they meet again,
// and the first rings.
Status launch_agree(const OfferArgs& args, const GroupEnd& end, HandoffScratch* scratch,
                    cudaStream_t stream);
Status launch_ring(const OfferArgs& args, const GroupEnd& end, cudaStream_t stream);

// offer.cu, accept.cu and accept_xa.cu: one kernel each. The accept may hear of its offer before
// that kernel has ended. `v` holds the groups' v one after another, [count, rank columns] each,
// f32.
Status launch_offer(const OfferArgs& args, HandoffScratch* scratch, cudaStream_t stream);
Status launch_accept(const AcceptArgs& args, HandoffScratch* scratch, float* v,
                     cudaStream_t stream);
Status launch_accept_xa(const AcceptArgs& args, const float* v, cudaStream_t stream);

}  // namespace tandem::cuda
