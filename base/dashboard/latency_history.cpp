#include "base/dashboard/latency_history.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tandem {

void LatencyHistory::Counts::add(double seconds) {
  const double index =
      std::log(std::max(seconds, kShortest_s) / kShortest_s) / std::log(kClassWidth);
  ++classes[std::min(static_cast<std::size_t>(index), kClasses - 1)];
  ++total;
}

LatencyHistory::Quantiles LatencyHistory::Counts::quantiles() const {
  const auto at = [this](double share) {
    const double rank = share * total;
    double below = 0;
    for (std::size_t i = 0; i < kClasses; ++i) {
      below += classes[i];
      if (below >= rank && classes[i] > 0) {
        return kShortest_s * std::pow(kClassWidth, static_cast<double>(i) + 0.5);
      }
    }
    return -1.0;
  };
  if (total == 0) return {};
  return {at(0.5), at(0.95)};
}

std::int64_t LatencyHistory::number_of(TimePoint at) {
  return std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count() /
         kSliceSeconds;
}

void LatencyHistory::add(TimePoint now, double first_token_s, std::optional<double> per_token_s) {
  const std::int64_t number = number_of(now);
  const std::lock_guard lock(mutex_);
  if (ring_.empty()) ring_.resize(kSlices);
  Counted& slice = ring_[static_cast<std::size_t>(number % kSlices)];
  if (slice.number != number) slice = {.number = number, .first_token = {}, .per_token = {}};
  slice.first_token.add(first_token_s);
  if (per_token_s) slice.per_token.add(*per_token_s);
}

std::vector<LatencyHistory::Slice> LatencyHistory::slices(TimePoint now) const {
  const std::int64_t last = number_of(now);
  std::vector<Slice> result(kSlices);
  const std::lock_guard lock(mutex_);
  if (ring_.empty()) return result;
  for (int i = 0; i < kSlices; ++i) {
    const std::int64_t number = last - (kSlices - 1) + i;
    if (number < 0) continue;
    const Counted& counted = ring_[static_cast<std::size_t>(number % kSlices)];
    if (counted.number != number) continue;
    result[static_cast<std::size_t>(i)] = {
        counted.first_token.quantiles(), counted.per_token.quantiles(), counted.first_token.total};
  }
  return result;
}

}  // namespace tandem
