#include "scheduler/costs/stall_tracker.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tandem {

void StallTracker::observe(StallKind kind, double model_s, double seen_s) {
  if (!(model_s > 0) || !std::isfinite(model_s) || !std::isfinite(seen_s)) return;
  const double ratio = seen_s / model_s;
  if (ratio < kLeast || ratio > kMost) return;
  Buckets& buckets = kinds_[static_cast<std::size_t>(kind)];
  const auto nearest = static_cast<std::size_t>(std::lround(StallFactors::position(model_s)));
  buckets[nearest].add(ratio);
  ++observed_;
  fill(buckets, factors_.tables[static_cast<std::size_t>(kind)]);
}

// Between two that are known straight, beyond them as the last one.
void StallTracker::fill(const Buckets& buckets, StallFactors::Table& table) {
  const auto is_known = [](const auto& bucket) { return bucket.known() > 0; };
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const auto at = buckets.begin() + static_cast<std::ptrdiff_t>(i);
    const auto above = std::find_if(at, buckets.end(), is_known);
    const auto below = std::find_if(std::make_reverse_iterator(at), buckets.rend(), is_known);
    if (above == buckets.end() && below == buckets.rend()) return;
    if (above == buckets.end() || below == buckets.rend() || above == at) {
      table[i] = above == buckets.end() ? below->median() : above->median();
      continue;
    }
    const auto from = static_cast<double>(at - (below.base() - 1));
    const auto to = static_cast<double>(above - at);
    table[i] = (below->median() * to + above->median() * from) / (from + to);
  }
}

}  // namespace tandem
