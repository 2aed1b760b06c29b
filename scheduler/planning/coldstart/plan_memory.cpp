#include "scheduler/planning/coldstart/plan_memory.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

namespace tandem {
namespace {

constexpr std::uint32_t kTryOnceIn = 100;    // at most once in so many steps
constexpr double kMostLostByTrying = 0.005;  // share of the time of the steps between
constexpr std::uint32_t kTryAgainAfter = 4;
// If a way's best ratio is below this share of its believed ratio, only some of its last steps were
// delayed.
constexpr double kMixed = 0.8;
constexpr double kFarBelow = 0.9;
constexpr std::uint32_t kHopesSeldom = 256;
constexpr std::size_t kFew = 2;
// The least gain of workers over waiting, and of `assist` over the plan: workers keep cores busy
// that others could use, and a plan uses no more of them than it needs.
constexpr double kLeastGain = 0.02;
// The range to which ratios are clamped.
constexpr double kLeastRatio = 0.1, kMostRatio = 10;

// A situation is dropped after so many engine starts without a step of it.
constexpr std::uint32_t kMostStarts = 16;

using Ratios = RecentMedian<PlanMemory::kRemembered>;

// The ratio to expect of a way, from at least one measured ratio. The first steps may have been
// delayed by effects that come once, as untouched memory or sleeping workers. One or two ratios are
// therefore combined with a ratio of 1: one as the geometric mean, two as the median. `kept`: the
// oldest ratio was believed when the engine began.
double believed(const Ratios& ratios, bool kept) {
  if (ratios.known() > kFew) return ratios.median();
  if (kept) return ratios.oldest();
  if (ratios.known() == 1) return std::sqrt(ratios.median());
  return std::clamp(1.0, ratios.ranked(0), ratios.ranked(1));
}

// Returns nothing if PlanMemory would keep none of the ratios.
std::optional<double> believed_of(const std::vector<double>& ratios) {
  Ratios kept;
  for (const double ratio : ratios) {
    if (ratio >= kLeastRatio && ratio <= kMostRatio) kept.add(ratio);
  }
  if (kept.known() == 0) return std::nullopt;
  return believed(kept, false);
}

// The ratios to keep. A single restored one is repeated so that it is believed unchanged after the
// next start.
std::vector<double> to_keep(const Ratios& ratios, bool kept) {
  if (kept && ratios.known() == 1) return std::vector<double>(kFew + 1, ratios.oldest());
  return ratios.values();
}

// Steps between tries of a way, from the seconds of the worse and the better of it and the best
// way.
std::uint32_t steps_between_tries(double better, double worse) {
  constexpr double kRarest = 1e6;
  if (!(better > 0)) return kTryOnceIn;
  const double steps = std::ceil((worse / better - 1) / kMostLostByTrying);
  return static_cast<std::uint32_t>(std::clamp(steps, double{kTryOnceIn}, kRarest));
}

std::uint8_t doublings(double value) {
  constexpr double kMost = 1 << 20;
  return static_cast<std::uint8_t>(
      std::bit_width(static_cast<std::uint32_t>(std::round(std::clamp(value, 0.0, kMost)))));
}

}  // namespace

PlanSituation PlanSituation::of(const CostModel& costs, const PlanRequest& request) {
  double last = 0;  // last arrival of layers on their way or still being read
  double link_s = 0;
  std::size_t layers = 0;
  for (const ColdAdapter& adapter : request.adapters) {
    layers = adapter.layers.size();
    for (std::size_t l = 0; l < layers; ++l) {
      const LayerLoad& layer = adapter.layers[l];
      if (layer.sites == 0) continue;
      const double load_s = costs.load_time(layer.a_bytes + layer.b_bytes, layer.copies);
      if (!adapter.host_arrives.empty()) last = std::max(last, adapter.host_arrives[l] + load_s);
      if (adapter.a_arrives.empty()) {
        link_s += load_s;
      } else {
        last = std::max({last, adapter.a_arrives[l], adapter.b_arrives[l]});
      }
    }
  }
  if (link_s > 0) link_s += std::max(0.0, request.link_busy_for);
  const double missing_s = std::max(last, link_s) - std::max(0.0, request.starts_in);
  const double step_s = costs.layer_time(request.rows) * static_cast<double>(layers);
  constexpr double kQuarters = 4;
  const bool drowsy =
      request.workers > 0 && request.workers_drowsy_for > std::max(0.0, request.starts_in);
  return {doublings(static_cast<double>(request.adapters.size())), doublings(request.rows),
          doublings(step_s > 0 ? kQuarters * missing_s / step_s : 0), doublings(request.workers),
          static_cast<std::uint8_t>(drowsy ? 1 : 0)};
}

double step_seconds(const PlanRequest& request, const HandoffPlan& plan) {
  return plan.layer_ends.empty() ? 0 : plan.layer_ends.back() - std::max(0.0, request.starts_in);
}

void PlanMemory::observe(PlanSituation situation, PlanWay way, double planned_s, double took_s,
                         bool taught) {
  if (!(planned_s > 0) || !(took_s > 0)) return;
  Seen& seen = of(situation);
  const bool hoped = way == PlanWay::assist && seen.learns_nothing();
  if (hoped) seen.hopes_after = std::min(2 * seen.hopes_after, kHopesSeldom);
  seen.untaught = taught ? 0 : seen.untaught + 1;
  if (hoped && took_s < kFarBelow * planned_s) {
    // The ratios with workers were measured by wrong costs, which have been corrected.
    seen.ratios[index_of(PlanWay::plan)] = seen.ratios[index_of(PlanWay::assist)] = {};
    seen.kept[index_of(PlanWay::plan)] = seen.kept[index_of(PlanWay::assist)] = false;
    return;
  }
  const std::size_t i = index_of(way);
  if (seen.knows_nothing_of(way)) {
    Surprises& surprises = surprises_[kind_of(situation, way)];
    if (observed_ - surprises.last > kForgotten) surprises.late_s = {};
    surprises.late_s.add(took_s - planned_s);
    surprises.last = observed_;
  }
  if (seen.ratios[i].known() == kRemembered) seen.kept[i] = false;  // add() drops it
  seen.ratios[i].add(std::clamp(took_s / planned_s, kLeastRatio, kMostRatio));
  ++seen.steps;
  seen.went[i] = seen.steps;
  seen.starts = 0;
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
      kept.ratios[w] = to_keep(seen.ratios[w], seen.kept[w]);
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
      seen.ratios[w].add(*ratios[w]);
      seen.kept[w] = true;
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

std::size_t PlanMemory::kind_of(PlanSituation situation, PlanWay way) {
  if (way == PlanWay::wait) return 0;
  return situation.drowsy == 0 ? 1 : 2;
}

double PlanMemory::usual_surprise_s(PlanSituation situation) const {
  const auto usual_s = [&](const Surprises& seen) {
    const bool counts = seen.late_s.known() > kFew && observed_ - seen.last <= kForgotten;
    return counts ? std::max(0.0, seen.late_s.median()) : 0;
  };
  const double with_workers_s = usual_s(surprises_[kind_of(situation, PlanWay::plan)]);
  return std::max(0.0, with_workers_s - usual_s(surprises_[kind_of(situation, PlanWay::wait)]));
}

PlanSeconds PlanMemory::expected(PlanSituation situation, const PlanSeconds& predicted) const {
  const auto ratio_in = [&](PlanSituation where, PlanWay way) -> std::optional<double> {
    const auto found = seen_.find(where);
    if (found == seen_.end()) return std::nullopt;
    const std::size_t of = index_of(way);
    const auto& ratios = found->second.ratios[of];
    if (ratios.known() == 0) return std::nullopt;
    return believed(ratios, found->second.kept[of]);
  };
  const auto ratio_beside = [&](PlanWay way) -> std::optional<double> {
    for (std::uint8_t PlanSituation::*coordinate : {&PlanSituation::link, &PlanSituation::rows}) {
      for (const int step : {1, -1}) {
        PlanSituation beside = situation;
        beside.*coordinate = static_cast<std::uint8_t>(beside.*coordinate + step);
        if (const auto ratio = ratio_in(beside, way)) return std::sqrt(*ratio);
      }
    }
    return std::nullopt;
  };
  PlanSeconds expected = predicted;
  for (const PlanWay way : kPlanWays) {
    std::optional<double> ratio = ratio_in(situation, way);
    if (!ratio) ratio = ratio_in(situation, twin_of(way));
    double& seconds = expected[index_of(way)];
    if (ratio) {
      seconds *= *ratio;
      continue;
    }
    const double beside_s = ratio_beside(way).value_or(1) * seconds;
    // The delay of a step is at most its own time: a short step is delayed less.
    const double late_s = way == PlanWay::wait ? 0 : std::min(usual_surprise_s(situation), seconds);
    seconds = late_s > 0 ? std::max(seconds + late_s, beside_s) : beside_s;
  }
  return expected;
}

bool PlanMemory::learns_nothing(PlanSituation situation) const {
  const auto found = seen_.find(situation);
  return found != seen_.end() && found->second.learns_nothing();
}

PlanWay PlanMemory::choose(PlanSituation situation, const PlanSeconds& predicted,
                           double hoped_s) const {
  const auto found = seen_.find(situation);
  const std::uint32_t steps = found == seen_.end() ? 0 : found->second.steps;
  const PlanSeconds expected = this->expected(situation, predicted);
  const PlanWay best = promised(expected);
  if (hoped_s < kFarBelow * expected[index_of(best)] && learns_nothing(situation)) {
    return PlanWay::assist;
  }
  // Whether the way has the best prediction and so few steps contradict it that what delayed them
  // may be over.
  const auto is_due_again = [&](PlanWay way) {
    if (found == seen_.end()) return false;
    const Seen& seen = found->second;
    const std::size_t i = index_of(way);
    const Ratios& ratios = seen.ratios[i];
    const double believed_ratio = ratios.known() == 0 ? 1 : believed(ratios, seen.kept[i]);
    PlanSeconds optimistic = expected;
    if (ratios.known() > kFew && ratios.ranked(0) < kMixed * believed_ratio) {
      optimistic[i] = predicted[i] * ratios.ranked(0);
      if (promised(optimistic) == way && steps - seen.went[i] >= kTryAgainAfter) return true;
    }
    optimistic[i] = predicted[i];
    if (promised(optimistic) != way) return false;
    const std::size_t known = ratios.known() - (seen.kept[i] ? 1 : 0);  // steps of this engine
    if (known == kRemembered) return false;
    if (known == 0 && !seen.knows_nothing_of(way)) return false;
    if (known > kFew && believed_ratio < kHeldUp) return false;
    return steps - seen.went[i] >= kTryAgainAfter << (std::max<std::size_t>(known, 1) - 1);
  };
  for (const PlanWay other : kPlanWays) {
    const double better = expected[index_of(best)], worse = expected[index_of(other)];
    if (other == best || std::isinf(worse)) continue;
    if (is_due_again(other)) return other;
    const std::uint32_t every =
        steps_between_tries(std::min(better, worse), std::max(better, worse));
    // Offsets keep two ways from being tried in the same step.
    const std::uint32_t turn =
        every - 1 - static_cast<std::uint32_t>(index_of(other)) * (every / 4);
    if (steps % every == turn) return other;
  }
  return best;
}

}  // namespace tandem
