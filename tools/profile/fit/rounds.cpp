#include "tools/profile/fit/rounds.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tandem {
namespace {

// The number of values left out at each end: the largest number such that by chance, with equal
// probability of both sides, at most 2.5 of 100 samples have so few values on one side of the
// median.
std::size_t left_out(std::size_t count) {
  constexpr double kOneSide = 0.025;
  double choose = 1;  // of `count`, k
  double below = 0;   // the probability of at most k values on one side
  const double each = std::pow(0.5, static_cast<double>(count));
  for (std::size_t k = 0; k <= count / 2; ++k) {
    below += choose * each;
    if (below > kOneSide) return k == 0 ? 0 : k - 1;
    choose *= static_cast<double>(count - k) / static_cast<double>(k + 1);
  }
  return 0;
}

double median_of_sorted(const std::vector<double>& values) {
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

double median_of(std::vector<double> values) {
  TANDEM_CHECK(!values.empty(), "the median of nothing");
  std::ranges::sort(values);
  return median_of_sorted(values);
}

double MedianInterval::spread() const {
  const double farther = std::max(high - median, median - low);
  if (farther <= 0) return 0;
  return median == 0 ? 1 : farther / std::abs(median);
}

MedianInterval median_interval(std::vector<double> values) {
  TANDEM_CHECK(!values.empty(), "the median of nothing");
  std::ranges::sort(values);
  // 2^-count underflows beyond about a thousand values, more than there are passes.
  const std::size_t out = left_out(std::min<std::size_t>(values.size(), 1000));
  return {median_of_sorted(values), values[out], values[values.size() - 1 - out]};
}

Result<std::vector<double>> time_by_turns(const Clock& clock, std::size_t count, int rounds,
                                          double budget_s,
                                          const std::function<Result<double>(std::size_t)>& time) {
  std::vector<std::vector<double>> seen(count);
  const TimePoint start = clock.now();
  for (int round = 0; round < rounds; ++round) {
    if (round > 0 && seconds_between(start, clock.now()) >= budget_s) break;
    for (std::size_t i = 0; i < count; ++i) {
      TANDEM_ASSIGN(const double seconds, time(i));
      seen[i].push_back(seconds);
    }
  }
  std::vector<double> medians;
  medians.reserve(count);
  for (std::vector<double>& values : seen) medians.push_back(median_of(std::move(values)));
  return medians;
}

}  // namespace tandem
