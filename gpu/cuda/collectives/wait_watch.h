// Detects a rank that waits too long for others in an NCCL operation, which has no deadline.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "gpu/communicator.h"

namespace tandem::cuda {

// For use by one thread.
class WaitWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit WaitWatch(std::chrono::nanoseconds patience) : patience_(patience) {}

  // `marks`: GroupFaults::marks of each rank. Called now and then; returns a rank that is still in
  // the operation that it was in at a call `patience` or longer ago.
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
