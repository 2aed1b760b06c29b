// Ratios of measured time to a model's time by size, learnt by factor_tracker.h. A model that is
// wrong for small sizes may be right for large ones.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tandem {

// One factor for each doubling of the size: the first holds for sizes up to 1, the last for its own
// size and all above.
struct FactorTable {
  static constexpr std::size_t kBuckets = 12;
  std::array<double, kBuckets> values = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

  // Position of a size among the values: 2.5 is half way between sizes 4 and 8. It is linear
  // between powers of two, which is close to a logarithm, and fast: planners call it thousands of
  // times.
  static double position(double size) {
    const auto bits = std::bit_cast<std::uint64_t>(std::max(size, 1.0));
    constexpr int kMantissa = 52;
    constexpr std::uint64_t kOne = 1023;
    const auto exponent = static_cast<double>((bits >> kMantissa) - kOne);
    const auto fraction = static_cast<double>(bits & ((std::uint64_t{1} << kMantissa) - 1));
    return std::min(exponent + fraction / static_cast<double>(std::uint64_t{1} << kMantissa),
                    static_cast<double>(kBuckets - 1));
  }

  double of(double size) const {
    const double at = position(size);
    const auto below = static_cast<std::size_t>(at);
    if (below + 1 >= kBuckets) return values.back();
    const double share = at - static_cast<double>(below);
    return values[below] + share * (values[below + 1] - values[below]);
  }

  bool operator==(const FactorTable&) const = default;
};

}  // namespace tandem
