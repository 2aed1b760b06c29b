#include "scheduler/planning/costs/factor_tracker.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

namespace tandem {
namespace {

bool is_plausible(double ratio) {
  constexpr double kLeast = 0.02, kMost = 500;
  return ratio >= kLeast && ratio <= kMost;
}

std::size_t bucket_of(double size) {
  return static_cast<std::size_t>(std::lround(FactorTable::position(size)));
}

// Returns nothing if the values are no plausible measurement.
std::optional<double> ratio_of(double size, double model, double seen) {
  if (!(model > 0) || !std::isfinite(model) || !std::isfinite(size)) return std::nullopt;
  const double ratio = seen / model;
  if (!is_plausible(ratio)) return std::nullopt;
  return ratio;
}

}  // namespace

bool FactorTracker::observe(double size, double model, double seen) {
  const std::optional<double> ratio = ratio_of(size, model, seen);
  if (!ratio) return false;
  buckets_[bucket_of(size)].add(*ratio);
  fill();
  return true;
}

bool FactorTracker::observe_doubting(double size, double model, double seen) {
  const std::optional<double> ratio = ratio_of(size, model, seen);
  if (!ratio) return false;
  const std::size_t i = bucket_of(size);
  // With so many ratios a single one does not move the bucket's median.
  constexpr std::size_t kFew = 3;
  const double doubted = std::exchange(doubted_[i], 0);
  if (buckets_[i].known() >= kFew || *ratio <= kHeldUp * std::max(1.0, table_.values[i])) {
    return observe(size, model, seen);
  }
  if (doubted > 0) return observe(size, model, std::min(*ratio, doubted) * model);
  doubted_[i] = *ratio;
  return false;
}

bool FactorTracker::bound(double size, double model, double seen, Bound side) {
  const std::optional<double> ratio = ratio_of(size, model, seen);
  if (!ratio) return false;
  const double at = FactorTable::position(size);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t last = static_cast<double>(below) < at ? below + 1 : below;
  bool counts = false;
  for (std::size_t i = below; i <= last; ++i) {
    const double believed = table_.values[i];
    const bool contradicts =
        side == Bound::at_most ? *ratio * kBoundSlack < believed : *ratio > believed * kBoundSlack;
    if (contradicts) buckets_[i].add(*ratio);
    counts |= contradicts;
  }
  if (counts) fill();
  return counts;
}

void FactorTracker::keep_least() {
  for (RecentMedian<kRemembered>& bucket : buckets_) {
    if (bucket.known() == 0) continue;
    std::size_t rank = 0;
    while (rank + 1 < bucket.known() && bucket.ranked(rank) < kNoWork) ++rank;
    const double least = bucket.ranked(rank);
    bucket = {};
    bucket.add(least);
  }
  doubted_ = {};
  fill();
}

// Linear between buckets with measurements; beyond them, the value of the last one.
void FactorTracker::fill() {
  const auto is_known = [](const auto& bucket) { return bucket.known() > 0; };
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const auto at = buckets_.begin() + static_cast<std::ptrdiff_t>(i);
    const auto above = std::find_if(at, buckets_.end(), is_known);
    const auto below = std::find_if(std::make_reverse_iterator(at), buckets_.rend(), is_known);
    if (above == buckets_.end() && below == buckets_.rend()) return;
    if (above == buckets_.end() || below == buckets_.rend() || above == at) {
      table_.values[i] = above == buckets_.end() ? below->median() : above->median();
      continue;
    }
    const auto from = static_cast<double>(at - (below.base() - 1));
    const auto to = static_cast<double>(above - at);
    table_.values[i] = (below->median() * to + above->median() * from) / (from + to);
  }
}

FactorTracker::Lessons FactorTracker::lessons() const {
  Lessons lessons;
  for (std::size_t i = 0; i < buckets_.size(); ++i) lessons[i] = buckets_[i].values();
  return lessons;
}

void FactorTracker::restore(const Lessons& lessons) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    for (const double ratio : lessons[i]) {
      if (is_plausible(ratio)) buckets_[i].add(ratio);
    }
  }
  fill();
}

}  // namespace tandem
