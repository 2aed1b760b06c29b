// The recent request frequency of each adapter, in fixed memory for any number of adapters.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "scheduler/cluster/policies/policy.h"

namespace tandem {

// A count-min sketch: counts are never too low, and too high by the requests that collide in all
// rows. Every kWindow requests all counts are halved, so that old demand fades. No allocation. Not
// thread-safe.
class DemandSketch {
 public:
  static constexpr std::uint32_t kWindow = 8'000;

  void count(ClusterAdapterId adapter) {
    if (++total_ > kWindow) halve();
    for (std::size_t row = 0; row < kRows; ++row) ++counts_[row][cell(adapter, row)];
  }
  // The adapter's share of all requests, 0 to 1.
  double share(ClusterAdapterId adapter) const {
    if (total_ == 0) return 0;
    std::uint32_t least = total_;
    for (std::size_t row = 0; row < kRows; ++row) {
      least = std::min(least, counts_[row][cell(adapter, row)]);
    }
    return static_cast<double>(least) / total_;
  }

 private:
  static constexpr std::size_t kRows = 4;
  static constexpr std::size_t kCells = 4096;

  static std::size_t cell(ClusterAdapterId adapter, std::size_t row) {
    return mix_hash(row, static_cast<std::uint64_t>(adapter.value())) % kCells;
  }
  void halve() {
    total_ /= 2;
    for (auto& row : counts_) {
      for (std::uint32_t& count : row) count /= 2;
    }
  }

  std::array<std::array<std::uint32_t, kCells>, kRows> counts_{};
  std::uint32_t total_ = 0;
};

}  // namespace tandem
