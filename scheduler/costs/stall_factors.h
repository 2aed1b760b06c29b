// What handing over a layer really takes, over what CostModel says: it is learnt, see
// stall_tracker.h. What is off in one place need not be in another: so there is a table for each
// kind of work, by how long the model thinks that it takes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tandem {

// What workers have most to do with: reading weights or multiplying, for whole deltas or for x A^T.
enum class StallKind : std::uint8_t { read_whole, multiply_whole, read_xa, multiply_xa };
inline constexpr std::size_t kNumStallKinds = 4;

struct StallFactors {
  static constexpr std::size_t kBuckets = 12;
  static constexpr double kFirst_s = 16e-6;  // each is for twice what the one before is for

  using Table = std::array<double, kBuckets>;
  static constexpr Table kOnes = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  std::array<Table, kNumStallKinds> tables = {kOnes, kOnes, kOnes, kOnes};

  // Where `seconds` lies in a table: 2.5 is half way between 2 and 3. Straight between powers of
  // two, which is near enough to a logarithm, and quick: the planner asks thousands of times.
  static double position(double seconds) {
    const auto bits = std::bit_cast<std::uint64_t>(std::max(seconds / kFirst_s, 1.0));
    constexpr int kMantissa = 52;
    constexpr std::uint64_t kOne = 1023;
    const auto exponent = static_cast<double>((bits >> kMantissa) - kOne);
    const auto fraction = static_cast<double>(bits & ((std::uint64_t{1} << kMantissa) - 1));
    return std::min(exponent + fraction / static_cast<double>(std::uint64_t{1} << kMantissa),
                    static_cast<double>(kBuckets - 1));
  }

  double of(StallKind kind, double seconds) const {
    const Table& table = tables[static_cast<std::size_t>(kind)];
    const double at = position(seconds);
    const auto below = static_cast<std::size_t>(at);
    if (below + 1 >= kBuckets) return table.back();
    const double share = at - static_cast<double>(below);
    return table[below] + share * (table[below + 1] - table[below]);
  }

  bool operator==(const StallFactors&) const = default;
};

}  // namespace tandem
