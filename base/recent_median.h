// The median of the last values: what does not move when one of them is far off.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace tandem {

// Not thread-safe; no allocation, but by values().
template <std::size_t kRemembered>
class RecentMedian {
 public:
  void add(double value) { values_[count_++ % kRemembered] = value; }
  std::size_t known() const { return std::min(count_, kRemembered); }
  // The lower one of an even number, for what is far off was held up; of none, 0.
  double median() const { return count_ == 0 ? 0 : ranked((known() - 1) / 2); }
  // What so many are not above; requires that more are known.
  double ranked(std::size_t rank) const {
    std::array<double, kRemembered> sorted = values_;
    const auto nth = sorted.begin() + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(sorted.begin(), nth, sorted.begin() + static_cast<std::ptrdiff_t>(known()));
    return *nth;
  }
  // Requires that one is known.
  double oldest() const { return values_[(count_ - known()) % kRemembered]; }
  // Oldest first.
  std::vector<double> values() const {
    std::vector<double> values;
    for (std::size_t i = count_ - known(); i < count_; ++i) {
      values.push_back(values_[i % kRemembered]);
    }
    return values;
  }

 private:
  std::array<double, kRemembered> values_{};
  std::size_t count_ = 0;  // ever
};

}  // namespace tandem
