// The data of a job that the handoff's kernels read first, and the doorbells that they ring.
#pragma once

#include <cstdint>

#include "base/ids/ticket.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// The data that a block needs first. Being metadata, it may be read before earlier kernels have
// ended. All loads are in flight at once.
struct JobOfBlock {
  ColdGroup group;
  OfferDescriptor descriptor;
  __device__ __forceinline__ JobOfBlock(const HandoffJob& job, std::int32_t g)
      : group(job.groups[g]), descriptor(*job.descriptor) {
    // Keeps the loads in front of it. Otherwise the compiler would move each load to its first use,
    // behind a branch that depends on another one, and wait for memory three times (CUDA 13.0).
    __syncwarp();
  }
};

// Same as doorbell_of in base/ids/ticket.h, which kernels may not call.
__device__ __forceinline__ std::uint64_t make_doorbell(std::uint64_t sequence, Ticket ticket) {
  return sequence << 3 | static_cast<std::uint64_t>(ticket);
}
static_assert(doorbell_of(9, Ticket::cpu_xa) == (9 << 3 | 3));

}  // namespace tandem::cuda
