// Where the ranks of a group of GPUs meet: words in the memory of each, which the others' kernels
// write over NVLink or PCIe; where they cannot, words of each in pinned host memory, which all can
// write. What a kernel needs to know of it, and its layout.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/communicator.h"

namespace tandem::cuda {

// Of a launch that meets: all of all ranks' must be on their GPUs at once, and several ranks may be
// on one.
constexpr std::int32_t kMostMeetingBlocks = 128;

// What a block of one rank tells the block of the same number of another.
struct Message {
  std::uint64_t part;  // address of what it shows
  std::uint64_t word;  // number of the meeting << 32 | columns; written last, with release
};

// Of each rank, zero at first.
//
//   0 inbox [blocks][2][ranks] | 32768 meetings [blocks] | 33280 gave_up
struct RankSignals {
  // By turns: the fastest rank may send the next message while the slowest reads this one. A third
  // cannot come before every rank has sent its second, and that it does after reading the first.
  Message inbox[kMostMeetingBlocks][2][Communicator::kMaxRanks];
  // Meetings that a block has been to, by the rank's own kernels: a recorded launch finds here
  // which one is its. Blocks count each for itself, as launches differ in how many they have.
  std::uint32_t meetings[kMostMeetingBlocks];
  // 1: a block has met nobody; this rank's kernels do nothing until it is zeroed.
  std::uint32_t gave_up;
};
static_assert(offsetof(RankSignals, meetings) == 32768 && offsetof(RankSignals, gave_up) == 33280);

// In pinned host memory, one of the group.
struct GroupFaults {
  // 1: who waits gives up. Written by the CPU, and by a kernel whose patience has ended.
  std::uint32_t is_broken;
  // Of each rank, written by its kernels: it gave up; it waited until the deadline. The CPU zeroes
  // them.
  std::uint32_t gave_up[Communicator::kMaxRanks];
  std::uint32_t was_late[Communicator::kMaxRanks];
  // Of each rank, counted up by its streams: odd while an operation of NCCL's runs, or waits for
  // the others'. The CPU reads them.
  std::uint32_t marks[Communicator::kMaxRanks];
};

// One rank's end, as its kernels get it.
struct GroupEnd {
  RankSignals* signals[Communicator::kMaxRanks];  // [size]
  GroupFaults* faults;
  std::uint64_t patience_ns;
  std::int32_t rank;
  std::int32_t size;
  std::int32_t most_blocks;  // of a launch, up to kMostMeetingBlocks; the same on all ranks
  // Some ranks are on one GPU: a kernel that waits for another rank's lets the next of its stream
  // begin only when it has met, for their blocks would take the room that the other needs. Else
  // the next one's weights come while it waits.
  bool shares_gpu;
};

// A group of this rank alone, which meets nobody: what is left to do when others have added up.
inline GroupEnd alone(const GroupEnd& end) {
  GroupEnd one = end;
  one.signals[0] = end.signals[end.rank];
  one.rank = 0;
  one.size = 1;
  return one;
}

// What the ranks of a group show, each rows of so many columns.
struct ShownParts {
  const float* at[Communicator::kMaxRanks];
  std::int32_t cols[Communicator::kMaxRanks];
};

}  // namespace tandem::cuda
