#include "scheduler/planning/coldstart/plan_memory.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tandem {
namespace {

constexpr std::uint32_t kTryOnceIn = 100;  // at most once in so many steps
// Tries of a way that was taken until it was slow: steps without it, doubling from try to try.
constexpr std::uint32_t kFirstTryIn = 8, kLastEarlyTryIn = 32;
constexpr double kMostLostByTrying = 0.005;  // share of the time of the steps between
// The least gain of workers over waiting, and of `assist` over the plan: workers keep cores busy
// that others could use, and a plan uses no more of them than it needs.
constexpr double kLeastGain = 0.02;
// The range to which ratios are clamped.
constexpr double kLeastRatio = 0.1, kMostRatio = 10;

// A situation is dropped after so many engine starts without a step of it.
constexpr std::uint32_t kMostStarts = 16;

using Ratios = RecentMedian<PlanMemory::kRemembered>;

// The other way with workers; for `wait`, `wait` itself.
PlanWay with_same_costs(PlanWay way) {
  if (way == PlanWay::wait) return way;
  return way == PlanWay::plan ? PlanWay::assist : PlanWay::plan;
}

// The ratio to expect of a way, from at least one measured ratio. The first steps may have been
// delayed by effects that come once, as untouched memory or sleeping workers. One or two ratios are
// therefore combined with a ratio of 1: one as the geometric mean, two as the median.
double believed(const Ratios& ratios) {
  if (ratios.known() == 1) return std::sqrt(ratios.median());
  if (ratios.known() == 2) return std::clamp(1.0, ratios.ranked(0), ratios.ranked(1));
  return ratios.median();
}

// Returns nothing if PlanMemory would keep none of the ratios.
std::optional<double> believed_of(const std::vector<double>& ratios) {
  Ratios kept;
  for (const double ratio : ratios) {
    if (ratio >= kLeastRatio && ratio <= kMostRatio) kept.add(ratio);
  }
  if (kept.known() == 0) return std::nullopt;
  return believed(kept);
}

// Steps between tries of a way, from the seconds of the worse and the better of it and the best
// way.
std::uint32_t steps_between_tries(double better, double worse) {
  constexpr double kRarest = 1e6;
  if (!(better > 0)) return kTryOnceIn;
  const double steps = std::ceil((worse / better - 1) / kMostLostByTrying);
  return static_cast<std::uint32_t>(std::clamp(steps, double{kTryOnceIn}, kRarest));
}

}  // namespace

void PlanMemory::observe(PlanSituation situation, PlanWay way, double planned_s, double took_s) {
  if (!(planned_s > 0) || !(took_s > 0)) return;
  Seen& seen = of(situation);
  const std::size_t w = index_of(way);
  seen.ratios[w].add(std::clamp(took_s / planned_s, kLeastRatio, kMostRatio));
  seen.gap[w] = seen.steps - seen.taken[w];
  seen.taken[w] = ++seen.steps;
  seen.starts = 0;
}

void PlanMemory::pass(PlanSituation situation) {
  const auto found = seen_.find(situation);
  if (found != seen_.end()) ++found->second.steps;
}

// Makes room for a new situation first.
PlanMemory::Seen& PlanMemory::of(PlanSituation situation) {
  if (seen_.size() >= PlanLessons::kMostSeen && !seen_.contains(situation)) {
    seen_.erase(
        std::ranges::min_element(seen_, {}, [](const auto& each) { return each.second.last; }));
  }
  Seen& seen = seen_[situation];
  seen.last = ++observed_;
  return seen;
}

PlanLessons PlanMemory::lessons() const {
  std::vector<const std::pair<const PlanSituation, Seen>*> order;
  for (const auto& each : seen_) order.push_back(&each);
  std::ranges::sort(order, {}, [](const auto* each) { return each->second.last; });
  PlanLessons lessons;
  for (const auto* each : order) {
    const auto& [situation, seen] = *each;
    PlanLessons::Seen& kept = lessons.seen.emplace_back();
    kept.situation = situation;
    for (std::size_t w = 0; w < kNumPlanWays; ++w) {
      kept.ratios[w] = seen.ratios[w].values();
    }
    kept.steps = seen.steps;
    kept.starts = seen.starts;
  }
  return lessons;
}

void PlanMemory::restore(const PlanLessons& lessons) {
  for (const PlanLessons::Seen& kept : lessons.seen) {
    if (kept.starts >= kMostStarts) continue;
    std::array<std::optional<double>, kNumPlanWays> ratios;
    std::ranges::transform(kept.ratios, ratios.begin(), believed_of);
    if (std::ranges::none_of(ratios, &std::optional<double>::has_value)) continue;
    Seen& seen = of(kept.situation);
    for (std::size_t w = 0; w < kNumPlanWays; ++w) {
      if (!ratios[w]) continue;
      // believed() returns the ratio of two equal ones unchanged.
      for (int i = 0; i < 2; ++i) seen.ratios[w].add(*ratios[w]);
    }
    seen.steps = kept.steps;
    seen.starts = kept.starts + 1;
  }
}

PlanWay PlanMemory::promised(const PlanSeconds& predicted) {
  const double plan_s = predicted[index_of(PlanWay::plan)];
  const double assist_s = predicted[index_of(PlanWay::assist)];
  const bool assists = assist_s <= (1 - kLeastGain) * plan_s;
  const double handed_s = assists ? assist_s : plan_s;
  if (!(handed_s <= (1 - kLeastGain) * predicted[index_of(PlanWay::wait)])) return PlanWay::wait;
  return assists ? PlanWay::assist : PlanWay::plan;
}

PlanSeconds PlanMemory::expected(PlanSituation situation, const PlanSeconds& predicted) const {
  PlanSeconds expected = predicted;
  const auto found = seen_.find(situation);
  if (found == seen_.end()) return expected;
  const auto& all = found->second.ratios;
  for (const PlanWay way : kPlanWays) {
    const Ratios& own = all[index_of(way)];
    const Ratios& ratios = own.known() > 0 ? own : all[index_of(with_same_costs(way))];
    if (ratios.known() > 0) expected[index_of(way)] *= believed(ratios);
  }
  return expected;
}

PlanWay PlanMemory::choose(PlanSituation situation, const PlanSeconds& predicted) const {
  const auto found = seen_.find(situation);
  const Seen seen = found == seen_.end() ? Seen() : found->second;
  const PlanSeconds expected = this->expected(situation, predicted);
  const PlanWay best = promised(expected);
  for (const PlanWay other : kPlanWays) {
    const double better = expected[index_of(best)], worse = expected[index_of(other)];
    if (other == best || std::isinf(worse)) continue;
    const std::uint32_t every =
        steps_between_tries(std::min(better, worse), std::max(better, worse));
    // Offsets keep two ways from being tried in the same step.
    const std::uint32_t turn =
        every - 1 - static_cast<std::uint32_t>(index_of(other)) * (every / 4);
    if (seen.steps % every == turn) return other;
    const std::uint32_t taken = seen.taken[index_of(other)], gap = seen.gap[index_of(other)];
    const std::uint32_t soon = std::max(kFirstTryIn, 2 * gap);
    if (taken > 0 && soon <= kLastEarlyTryIn && seen.steps - taken == soon) return other;
  }
  return best;
}

}  // namespace tandem
