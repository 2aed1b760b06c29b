// The median of the last values: what does not move when one of them is far off.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace tandem {

// Not thread-safe; no allocation.
template <std::size_t kRemembered>
class RecentMedian {
 public:
  void add(double value) { values_[count_++ % kRemembered] = value; }
  std::size_t known() const { return std::min(count_, kRemembered); }
  // The upper one of an even number; of none, 0.
  double median() const {
    if (count_ == 0) return 0;
    std::array<double, kRemembered> sorted = values_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(known() / 2);
    std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(known()));
    return *middle;
  }

 private:
  std::array<double, kRemembered> values_{};
  std::size_t count_ = 0;  // ever
};

}  // namespace tandem
