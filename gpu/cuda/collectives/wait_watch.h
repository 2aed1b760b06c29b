// Notices the rank that waits for others within NCCL's operations, which have no deadline.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "gpu/communicator.h"

namespace tandem::cuda {

// For one thread.
class WaitWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit WaitWatch(std::chrono::nanoseconds patience) : patience_(patience) {}

  // `marks`: of each rank, what GroupFaults has. Looked at every now and then; answers a rank that
  // has been in one and the same operation since it was looked at `patience` or longer ago.
  std::optional<std::int32_t> late(std::span<const std::uint32_t> marks, TimePoint now);

 private:
  struct Seen {
    std::uint32_t mark = 0;
    TimePoint since;
  };

  const std::chrono::nanoseconds patience_;
  std::array<Seen, Communicator::kMaxRanks> seen_{};
};

}  // namespace tandem::cuda
