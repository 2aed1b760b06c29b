// Values counted in buckets, for a histogram that is drawn elsewhere.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem {

template <std::size_t N>
struct CountedValues {
  std::array<std::uint64_t, N + 1> counts{};  // in (bounds[i - 1], bounds[i]]; last: above
  double sum = 0;

  // `bounds` are ascending, and the same in every call.
  void count(const std::array<double, N>& bounds, double value) {
    ++counts[static_cast<std::size_t>(std::ranges::lower_bound(bounds, value) - bounds.begin())];
    sum += value;
  }
};

inline constexpr std::array kInterTokenBounds = {0.001, 0.0025, 0.005, 0.01, 0.02,
                                                 0.03,  0.05,   0.075, 0.1,  0.2,
                                                 0.5,   1.0,    2.5,   10.0, 60.0};  // seconds
inline constexpr std::array kAdapterLoadBounds = {0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                  0.025,  0.05,  0.1,    0.25,  0.5,
                                                  1.0,    5.0,   30.0,   120.0, 600.0};  // seconds
inline constexpr std::array kStepTokensBounds = {1.0,     8.0,     16.0,    32.0,    64.0,   128.0,
                                                 256.0,   512.0,   1024.0,  2048.0,  4096.0, 8192.0,
                                                 16384.0, 32768.0, 65536.0, 131072.0};

}  // namespace tandem
