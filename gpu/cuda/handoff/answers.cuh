// Waits for the workers' answers; also holds the code that the accept kernels share.
//
// One block of a group, its leader (part 0), polls the done words over the link, one lane per
// worker slot, and publishes its verdict in device memory, where the other blocks poll it. Reads of
// one word over the link follow each other at 0.8 us, so a dozen blocks would delay each other by
// ten. All blocks act on the one verdict, so a late answer is added by all of them or by none. Only
// a block that sees no verdict for twice the deadline (its leader never ran) acts alone: it adds
// nothing and marks the group as timed out, so that its rows are discarded, whatever the other
// blocks have added to them.
//
// A verdict holds its job's sequence, as a ticket does, because blocks of the next accept may
// already run and a sequence never repeats on a stream.
#pragma once

#include "gpu/cuda/base/memory_order.cuh"
#include "gpu/cuda/handoff/handoff.h"
#include "gpu/cuda/handoff/job.cuh"

namespace tandem::cuda {

// An output as kernels access it (std::array's operators are host functions).
struct AcceptOutput {
  void* data;
  std::int64_t stride;  // elements
  std::int64_t rows;
  std::int64_t cols;
};
inline AcceptOutput output_of(const TensorView& out) {
  return {out.data, out.stride[0], out.rows(), out.cols()};
}

// The descriptor's part of one group.
struct GroupDescriptor {
  std::uint64_t sequence;
  std::uint32_t adapted = 0;  // mask over the modules
  __device__ __forceinline__ GroupDescriptor(const OfferDescriptor& descriptor, std::int32_t g)
      : sequence(descriptor.sequence) {
#pragma unroll
    for (int m = 0; m < LoraModules::kMaxModules; ++m) {
      adapted |= static_cast<std::uint32_t>(descriptor.adapted[m] >> g & 1) << m;
    }
  }
};

__device__ __forceinline__ bool is_for_workers(Ticket ticket) {
  return ticket == Ticket::cpu || ticket == Ticket::cpu_xa;
}

// Called by a whole warp; returns the same in every lane: the ticket that the offer of this
// sequence has given or is about to give, or `none` if it is late or there was no offer on this
// stream. The ticket is known before the offer's kernel and those behind it have ended; but
// `tickets` itself is not yet valid for this kernel.
__device__ __forceinline__ Ticket hear_ticket(const HandoffScratch* scratch, std::int32_t g,
                                              std::uint64_t sequence) {
  constexpr std::uint64_t kPatienceNs = 100'000;
  unsigned ticket = static_cast<unsigned>(Ticket::none);
  if (threadIdx.x % 32 == 0) {
    const std::uint64_t start = global_time_ns();
    do {
      const std::uint64_t given = load_relaxed(&scratch->given[g]);
      if (given >> 3 != sequence) continue;
      ticket = static_cast<unsigned>(given & 7);
      break;
    } while (global_time_ns() - start < kPatienceNs);
  }
  return static_cast<Ticket>(__shfl_sync(~0U, ticket, 0));
}

// Called by a whole warp; returns the same in every lane: true if all of the group's workers have
// answered by the deadline. Each poll follows a reading of the clock, so answers present at the
// deadline count however late this block runs.
__device__ __forceinline__ bool poll_answers(const AcceptArgs& a, const GroupDescriptor& descriptor,
                                             std::int32_t g, const ColdGroup& group) {
  const std::uint64_t start = global_time_ns();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const MailboxView& mailbox = a.mailboxes[group.mailbox];
  const std::uint64_t* low = mailbox.done + lane * mailbox.worker_slot_stride + g;
  const std::uint64_t* high = low + 32 * mailbox.worker_slot_stride;
  bool wait_low = (group.workers >> lane & 1) != 0;
  bool wait_high = (group.workers >> (lane + 32) & 1) != 0;
  // Polls cross the link, so with many groups and worker slots each block polls less often.
  const unsigned looks = static_cast<unsigned>(a.num_groups * __popcll(group.workers));
  const unsigned pause_ns = looks > 512 ? min(4 * (looks - 512), 4000U) : 0;
  while (true) {
    const bool late = global_time_ns() - start >= std::uint64_t{a.deadline_us} * 1000;
    // acquire, system: pairs with the worker's release of done, after its y or v
    if (wait_low) wait_low = load_acquire_system(low) != descriptor.sequence;
    if (wait_high) wait_high = load_acquire_system(high) != descriptor.sequence;
    if (__any_sync(~0U, wait_low || wait_high) == 0) return true;
    if (__any_sync(~0U, late) != 0) return false;
    if (pause_ns > 0) __nanosleep(pause_ns);
  }
}

// Called by each block's first warp if the launch's ticket is for workers; returns the same in
// every lane. Data that the workers wrote before their answers is visible afterwards.
__device__ __forceinline__ bool hear_verdict(const AcceptArgs& a, const GroupDescriptor& descriptor,
                                             std::int32_t g, const ColdGroup& group, bool broken,
                                             HandoffScratch* scratch) {
  std::uint64_t* verdict = &scratch->verdict[g];
  if (blockIdx.y == 0) {
    const bool came = !broken && poll_answers(a, descriptor, g, group);
    __syncwarp();
    // release: pairs with the other blocks' acquire below
    if (gridDim.y > 1 && threadIdx.x == 0) {
      store_release(verdict, descriptor.sequence << 1 | (came ? 1 : 0));
    }
    return came;
  }
  const std::uint64_t start = global_time_ns();
  const std::uint64_t patience = std::uint64_t{a.deadline_us} * 2000 + 10'000'000;
  while (global_time_ns() - start < patience) {
    const std::uint64_t heard = load_acquire(verdict);
    if (__all_sync(~0U, heard >> 1 == descriptor.sequence)) return (heard & 1) != 0;
  }
  return false;
}

// The number of rows in groups before `g`: the offset of g's part of the scratch for v.
__device__ __forceinline__ std::int64_t rows_before(const AcceptArgs& a, std::int32_t g) {
  std::int64_t rows = 0;
  for (std::int32_t i = 0; i < g; ++i) rows += a.segments[a.groups[i].segment].count;
  return rows;
}

// The rank of module m of a group's adapter, 0 if it has none. The table's row must have arrived,
// as it has for a group with a cpu_xa ticket, because its B has.
__device__ __forceinline__ std::int32_t rank_of(const AcceptArgs& a,
                                                const GroupDescriptor& descriptor,
                                                std::int32_t slot, std::int32_t m) {
  return (descriptor.adapted >> m & 1) != 0 ? a.table[slot * a.slot_stride + m].rank : 0;
}

}  // namespace tandem::cuda
