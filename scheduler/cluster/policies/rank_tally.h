// Sum and maximum of the ranks of an engine's requests, which can be added and removed.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace tandem {

// Ranks are from 0 (the base model) to 2,048. Constant time, no allocation. Not thread-safe.
class RankTally {
 public:
  static constexpr std::int32_t kMaxRank = 2048;

  void add(std::int32_t rank) {
    check(rank);
    if (count_[index(rank)]++ == 0) used_[index(rank) / 64] |= bit(rank);
    sum_ += rank;
    ++requests_;
  }
  // Requires an earlier add() of this rank.
  void remove(std::int32_t rank) {
    check(rank);
    TANDEM_CHECK(count_[index(rank)] > 0, "no request of rank {}", rank);
    if (--count_[index(rank)] == 0) used_[index(rank) / 64] &= ~bit(rank);
    sum_ -= rank;
    --requests_;
  }

  std::int64_t requests() const { return requests_; }
  std::int64_t sum() const { return sum_; }
  std::int32_t max() const {  // 0 without requests
    for (std::size_t word = used_.size(); word-- > 0;) {
      if (used_[word] != 0)
        return static_cast<std::int32_t>(word * 64) + std::bit_width(used_[word]) - 1;
    }
    return 0;
  }

 private:
  static std::size_t index(std::int32_t rank) { return static_cast<std::size_t>(rank); }
  static std::uint64_t bit(std::int32_t rank) { return std::uint64_t{1} << (rank % 64); }
  static void check(std::int32_t rank) {
    TANDEM_CHECK(rank >= 0 && rank <= kMaxRank, "rank {}", rank);
  }

  std::array<std::int32_t, kMaxRank + 1> count_{};
  std::array<std::uint64_t, kMaxRank / 64 + 1> used_{};
  std::int64_t sum_ = 0;
  std::int64_t requests_ = 0;
};

}  // namespace tandem
