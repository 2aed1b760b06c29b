// The handoff operations (OfferArgs and AcceptArgs in gpu/ops.h) on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "gpu/cuda/base/device_memory.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// What blocks and kernels of a stream tell each other, per group.
struct HandoffScratch {
  std::uint32_t offered[kMaxColdGroups];  // parts of an offer that are done; zero between launches
  std::uint64_t given[kMaxColdGroups];    // an offer's number << 3 | the ticket it gave
  std::uint64_t verdict[kMaxColdGroups];  // an accept's number << 1 | whether all have answered
};

// One per stream. Enqueues; never synchronises; allocates only when an accept has more v than any
// before it (kFirstV bytes are there from the start). Metadata (groups, segments, rows) may be read
// while the kernel before still runs: copies and uploads may write it, other kernels not.
class Handoff {
 public:
  static Result<std::unique_ptr<Handoff>> create();

  Status offer(const OfferArgs& args, cudaStream_t stream);
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
  std::uint64_t offers_ = 0;         // enqueued so far
  std::uint64_t last_sequence_ = 0;  // of the last of them
  std::uint64_t accepts_ = 0;        // enqueued so far
  DeviceMemory old_v_;               // of an accept that may still run
  bool reaches_host_memory_ = false;
};

// offer.cu, accept.cu and accept_xa.cu: one kernel each. `offer`: the number of the offer, which
// the accept may hear of before that kernel has ended; 0: it waits for it. `accept`: the accept's
// own number. `v` holds the groups' v one after another, [count, rank columns] each, f32.
Status launch_offer(const OfferArgs& args, std::uint64_t offer, HandoffScratch* scratch,
                    cudaStream_t stream);
Status launch_accept(const AcceptArgs& args, std::uint64_t offer, std::uint64_t accept,
                     HandoffScratch* scratch, float* v, cudaStream_t stream);
Status launch_accept_xa(const AcceptArgs& args, const float* v, cudaStream_t stream);

}  // namespace tandem::cuda
