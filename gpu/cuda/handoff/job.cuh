// What the handoff's kernels read of a job before all else, and what they ring for it.
#pragma once

#include <cstdint>

#include "base/ids/ticket.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// What a block must know first. Metadata: it may be read before the kernels in front have ended.
// All of it is on its way at once; `group` holds nothing where the turn has no group g.
struct JobOfBlock {
  ColdGroup group;
  HandoffTurn turn;
  __device__ __forceinline__ JobOfBlock(const HandoffJob& job, std::int32_t g)
      : group(job.groups[g]), turn(*job.turn) {
    // No load moves across it. The compiler would put each off to where it is first used, behind a
    // branch on another, and wait for memory three times (CUDA 13.0).
    __syncwarp();
  }
};

// doorbell_of of base/ids/ticket.h, which kernels may not call.
__device__ __forceinline__ std::uint64_t make_doorbell(std::uint64_t sequence, Ticket ticket) {
  return sequence << 3 | static_cast<std::uint64_t>(ticket);
}
static_assert(doorbell_of(9, Ticket::cpu_xa) == (9 << 3 | 3));

}  // namespace tandem::cuda
