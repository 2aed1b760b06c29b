// The memory where the ranks of a group of GPUs meet: words on each GPU, which the other GPUs'
// kernels write over NVLink or PCIe; or, where they cannot, words in pinned host memory, which all
// can write. This file has their layout and what a kernel needs to know about the group.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/communicator.h"

namespace tandem::cuda {

// The maximum for a launch that meets: the blocks of all ranks must be resident on their GPUs at
// once, and several ranks may be on one GPU.
constexpr std::int32_t kMostMeetingBlocks = 128;

// The message from a block of one rank to the block with the same number of another.
struct Message {
  std::uint64_t part;  // address of the data that it shows
  std::uint64_t word;  // number of the meeting << 32 | columns; written last, with release
};

// One per rank, zero at first.
//
//   0 inbox [blocks][2][ranks] | 32768 meetings [blocks] | 33280 gave_up
struct RankSignals {
  // Two messages alternate: the fastest rank may send the next while the slowest reads this. A
  // third cannot come before every rank has sent its second, which it does after reading the first.
  Message inbox[kMostMeetingBlocks][2][Communicator::kMaxRanks];
  // The number of meetings per block, counted by the rank's own kernels: a recorded launch finds
  // its number here. Each block counts by itself, as launches differ in their number of blocks.
  std::uint32_t meetings[kMostMeetingBlocks];
  // 1: a block's meeting failed; this rank's kernels do nothing until it is zeroed.
  std::uint32_t gave_up;
};
static_assert(offsetof(RankSignals, meetings) == 32768 && offsetof(RankSignals, gave_up) == 33280);

// In pinned host memory, one per group.
struct GroupFaults {
  // 1: waiting blocks give up. Written by the CPU, and by a kernel whose patience has ended.
  std::uint32_t is_broken;
  // One per rank, written by its kernels: it gave up; it waited until the deadline. The CPU zeroes
  // them.
  std::uint32_t gave_up[Communicator::kMaxRanks];
  std::uint32_t was_late[Communicator::kMaxRanks];
  // One per rank, incremented by its streams: odd while an NCCL operation runs or waits for the
  // other ranks'. The CPU reads them.
  std::uint32_t marks[Communicator::kMaxRanks];
};

// One rank's end, as passed to its kernels.
struct GroupEnd {
  RankSignals* signals[Communicator::kMaxRanks];  // [size]
  GroupFaults* faults;
  std::uint64_t patience_ns;
  std::int32_t rank;
  std::int32_t size;
  std::int32_t most_blocks;  // maximum per launch, up to kMostMeetingBlocks; the same on all ranks
  // Some ranks share a GPU: a kernel that waits for another rank lets its stream's next kernel
  // begin only after the meeting, as that kernel's blocks would take the room that the other rank
  // needs. Otherwise the next kernel loads its weights during the wait.
  bool shares_gpu;
};

// A group of this rank alone, which never meets: for the work left after others have added up.
inline GroupEnd alone(const GroupEnd& end) {
  GroupEnd one = end;
  one.signals[0] = end.signals[end.rank];
  one.rank = 0;
  one.size = 1;
  return one;
}

// The data that the ranks of a group show each other: rows of cols[rank] columns.
struct ShownParts {
  const float* at[Communicator::kMaxRanks];
  std::int32_t cols[Communicator::kMaxRanks];
};

}  // namespace tandem::cuda
