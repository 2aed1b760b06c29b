// Waiting for the workers' answers, and what the accept kernels share.
//
// One block of a group, its leader (part 0), polls the done words over the link, a lane a worker
// slot, and publishes its verdict in device memory, where the others poll it: reads of one word
// over the link follow each other at 0.8 us, so that a dozen blocks would keep each other waiting
// for ten. All blocks act on the one verdict, so a late answer is added by all or by none. Only a
// block that hears of no verdict for twice the deadline (its leader never ran) acts alone: it adds
// nothing and marks the group void, whose rows are then thrown away, whatever the others have added
// to them.
//
// A verdict bears its job's sequence, as a ticket does: blocks of the next accept may be there
// already, and no stream meets a sequence twice.
#pragma once

#include "gpu/cuda/base/memory_order.cuh"
#include "gpu/cuda/handoff/handoff.h"
#include "gpu/cuda/handoff/job.cuh"

namespace tandem::cuda {

// An output as kernels read it (std::array's operators are the host's).
struct AcceptOutput {
  void* data;
  std::int64_t stride;  // elements
  std::int64_t rows;
  std::int64_t cols;
};
inline AcceptOutput output_of(const TensorView& out) {
  return {out.data, out.stride[0], out.rows(), out.cols()};
}

constexpr std::int32_t kMostWaiting = 16;  // that wait for answers, of fewer groups

// What a turn says of one of its groups.
struct GroupTurn {
  std::uint64_t sequence;
  std::int32_t num_groups;
  std::uint32_t adapted = 0;  // mask over the modules
  __device__ __forceinline__ GroupTurn(const HandoffTurn& turn, std::int32_t g)
      : sequence(turn.sequence), num_groups(turn.num_groups) {
#pragma unroll
    for (int m = 0; m < LoraModules::kMaxModules; ++m) {
      adapted |= static_cast<std::uint32_t>(turn.adapted[m] >> g & 1) << m;
    }
  }
  // Of a launch that has room for one group in as many parts, and for more groups: those that a
  // group has. The fewer blocks wait for answers, the better (accept.cu).
  __device__ __forceinline__ std::int32_t parts() const {
    return max(1, min(static_cast<std::int32_t>(gridDim.y), kMostWaiting / max(1, num_groups)));
  }
};

__device__ __forceinline__ bool is_for_workers(Ticket ticket) {
  return ticket == Ticket::cpu || ticket == Ticket::cpu_xa;
}

// By a whole warp; the same in every lane: the ticket that the offer of this sequence has given or
// is about to give, or `none` where it does not say: there was none on this stream, or it is late.
// Known before the offer's kernel, and those behind it, have ended; not yet what `tickets` holds
// for this kernel.
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

// By a whole warp; the same in every lane: whether all of the group's workers have answered by the
// deadline. A look comes after the clock, so that what is there by then counts however late this
// block runs.
__device__ __forceinline__ bool poll_answers(const AcceptArgs& a, const GroupTurn& turn,
                                             std::int32_t g, const ColdGroup& group) {
  const std::uint64_t start = global_time_ns();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const MailboxView& mailbox = a.mailboxes[group.mailbox];
  const std::uint64_t* low = mailbox.done + lane * mailbox.worker_slot_stride + g;
  const std::uint64_t* high = low + 32 * mailbox.worker_slot_stride;
  bool wait_low = (group.workers >> lane & 1) != 0;
  bool wait_high = (group.workers >> (lane + 32) & 1) != 0;
  // A look goes over the link: many groups and worker slots look less often.
  const unsigned looks = static_cast<unsigned>(turn.num_groups * __popcll(group.workers));
  const unsigned pause_ns = looks > 512 ? min(4 * (looks - 512), 4000U) : 0;
  while (true) {
    const bool late = global_time_ns() - start >= std::uint64_t{a.deadline_us} * 1000;
    // acquire, system: pairs with the worker's release of done, after its y or v
    if (wait_low) wait_low = load_acquire_system(low) != turn.sequence;
    if (wait_high) wait_high = load_acquire_system(high) != turn.sequence;
    if (__any_sync(~0U, wait_low || wait_high) == 0) return true;
    if (__any_sync(~0U, late) != 0) return false;
    if (pause_ns > 0) __nanosleep(pause_ns);
  }
}

// By the first warp of every block of the group, in a launch whose ticket is for workers; the same
// in every lane. What the workers wrote before their answers is visible after it.
__device__ __forceinline__ bool hear_verdict(const AcceptArgs& a, const GroupTurn& turn,
                                             std::int32_t g, const ColdGroup& group, bool broken,
                                             HandoffScratch* scratch) {
  std::uint64_t* verdict = &scratch->verdict[g];
  if (blockIdx.y == 0) {
    const bool came = !broken && poll_answers(a, turn, g, group);
    __syncwarp();
    // release: pairs with the other blocks' acquire below
    if (turn.parts() > 1 && threadIdx.x == 0) {
      store_release(verdict, turn.sequence << 1 | (came ? 1 : 0));
    }
    return came;
  }
  const std::uint64_t start = global_time_ns();
  const std::uint64_t patience = std::uint64_t{a.deadline_us} * 2000 + 10'000'000;
  while (global_time_ns() - start < patience) {
    const std::uint64_t heard = load_acquire(verdict);
    if (__all_sync(~0U, heard >> 1 == turn.sequence)) return (heard & 1) != 0;
  }
  return false;
}

// Rows of the groups before `g`: where its part of the scratch for v begins.
__device__ __forceinline__ std::int64_t rows_before(const AcceptArgs& a, std::int32_t g) {
  std::int64_t rows = 0;
  for (std::int32_t i = 0; i < g; ++i) rows += a.segments[a.groups[i].segment].count;
  return rows;
}

// Rank of module m of a group's adapter, 0 where it has none. The table must have arrived: of a
// group with a cpu_xa ticket, whose B has.
__device__ __forceinline__ std::int32_t rank_of(const AcceptArgs& a, const GroupTurn& turn,
                                                std::int32_t slot, std::int32_t m) {
  return (turn.adapted >> m & 1) != 0 ? a.table[slot * a.slot_stride + m].rank : 0;
}

}  // namespace tandem::cuda
