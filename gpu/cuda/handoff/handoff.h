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

// Words through which blocks and kernels of a stream communicate, per group. Jobs are told apart by
// their sequences, which never repeat on a stream, so that words of an earlier job are never
// mistaken for those of a later one.
struct HandoffScratch {
  std::uint32_t offered[kMaxColdGroups];  // finished parts of an offer; zero between launches
  std::uint64_t given[kMaxColdGroups];    // a doorbell: an offer's sequence and its ticket
  std::uint64_t verdict[kMaxColdGroups];  // an accept's sequence << 1 | 1 if all have answered
  // With several ranks: KnownOfGroup bits that hold for a group on all ranks, found by the offer's
  // first kernel.
  std::uint32_t agreed[kMaxColdGroups];
};

// Facts known about a group when an offer runs, as bits.
enum KnownOfGroup : std::uint32_t { kHasA = 1, kHasB = 2, kIsBroken = 4 };

// The rank's index, and the number of ranks that share the model.
struct HandoffRank {
  std::int32_t index = 0;
  std::int32_t of = 1;
};
inline HandoffRank rank_of(const HandoffJob& job) {
  if (job.communicator == nullptr) return {};
  return {job.communicator->rank(), job.communicator->size()};
}

// One per stream. Enqueues; never synchronises; allocates only if an accept has more v than any
// before it (kFirstV bytes are there from the start). Metadata (descriptor, groups, segments, rows)
// may be read while the previous kernel still runs, so only copies and uploads may write it, not
// kernels. Launch shapes do not depend on device memory, so a recording serves every step.
class Handoff {
 public:
  static Result<std::unique_ptr<Handoff>> create();

  // `end`: that of the communicator in the args, if there is one.
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
  // Accepts in flight and recordings, which may run again, hold their addresses. Sizes double, so
  // all of these together are smaller than v_.
  std::vector<DeviceMemory> outgrown_v_;
  bool reaches_host_memory_ = false;
};

// ranks.cu, before and after the offer of ranks that share a model: launch_agree makes them agree
// on what is known of the groups (scratch->agreed). Once each has written its columns of x,
// launch_ring makes them meet again, and the first rank rings.
Status launch_agree(const OfferArgs& args, const GroupEnd& end, HandoffScratch* scratch,
                    cudaStream_t stream);
Status launch_ring(const OfferArgs& args, const GroupEnd& end, cudaStream_t stream);

// offer.cu, accept.cu and accept_xa.cu: one kernel each. The accept may get its ticket before the
// offer's kernel has ended. `v` holds the groups' v one after another, [count, rank columns] each,
// in f32.
Status launch_offer(const OfferArgs& args, HandoffScratch* scratch, cudaStream_t stream);
Status launch_accept(const AcceptArgs& args, HandoffScratch* scratch, float* v,
                     cudaStream_t stream);
Status launch_accept_xa(const AcceptArgs& args, const float* v, cudaStream_t stream);

}  // namespace tandem::cuda
