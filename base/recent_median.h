// The median of recent values, which a single outlier does not move.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace tandem {

// Not thread-safe; only values() allocates.
template <std::size_t kRemembered>
class RecentMedian {
 public:
  void add(double value) { values_[count_++ % kRemembered] = value; }
  std::size_t known() const { return std::min(count_, kRemembered); }
  // The lower median of an even number, as outliers are usually late; 0 if there are none.
  double median() const { return count_ == 0 ? 0 : ranked((known() - 1) / 2); }
  // The value at index `rank` in ascending order; requires rank < known().
  double ranked(std::size_t rank) const {
    std::array<double, kRemembered> sorted = values_;
    const auto nth = sorted.begin() + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(sorted.begin(), nth, sorted.begin() + static_cast<std::ptrdiff_t>(known()));
    return *nth;
  }
  // The values in order, oldest first.
  std::vector<double> values() const {
    std::vector<double> values;
    for (std::size_t i = count_ - known(); i < count_; ++i) {
      values.push_back(values_[i % kRemembered]);
    }
    return values;
  }

 private:
  std::array<double, kRemembered> values_{};
  std::size_t count_ = 0;  // all values ever added
};

}  // namespace tandem
