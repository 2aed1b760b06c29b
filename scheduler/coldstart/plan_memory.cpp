#include "scheduler/coldstart/plan_memory.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

namespace tandem {
namespace {

constexpr std::uint32_t kTryOnceIn = 100;    // at the most
constexpr double kMostLostByTrying = 0.005;  // of the time of the steps between
// Handing over keeps cores busy that others could use: it has to gain something.
constexpr double kLeastGain = 0.02;
// Beyond, it is as bad, or as good, as anything.
constexpr double kLeastRatio = 0.1, kMostRatio = 10;

// Engines that have seen no such step.
constexpr std::uint32_t kMostStarts = 16;

// Nothing: none of them is what PlanMemory keeps.
std::optional<double> median_of(const std::vector<double>& ratios) {
  RecentMedian<PlanMemory::kRemembered> kept;
  for (const double ratio : ratios) {
    if (ratio >= kLeastRatio && ratio <= kMostRatio) kept.add(ratio);
  }
  if (kept.known() == 0) return std::nullopt;
  return kept.median();
}

// Of the way that takes `worse` where the other takes `better`.
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
  double last = 0;  // of what is on its way or still being read, to arrive
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
  const double step_s = costs.layer_time(request.rows) * static_cast<double>(layers);
  constexpr double kQuarters = 4;
  return {doublings(static_cast<double>(request.adapters.size())), doublings(request.rows),
          doublings(step_s > 0 ? kQuarters * std::max(last, link_s) / step_s : 0)};
}

double step_seconds(const PlanRequest& request, const HandoffPlan& plan) {
  return plan.layer_ends.empty() ? 0 : plan.layer_ends.back() - std::max(0.0, request.starts_in);
}

void PlanMemory::observe(PlanSituation situation, Way way, double planned_s, double took_s) {
  if (!(planned_s > 0) || !(took_s > 0)) return;
  Seen& seen = of(situation);
  const double ratio = std::clamp(took_s / planned_s, kLeastRatio, kMostRatio);
  seen.ratios[static_cast<std::size_t>(way)].add(ratio);
  ++seen.steps;
  seen.starts = 0;
}

// Room for it is made first.
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
    lessons.seen.push_back(
        {situation, seen.ratios[static_cast<std::size_t>(Way::hand_over)].values(),
         seen.ratios[static_cast<std::size_t>(Way::wait)].values(), seen.steps, seen.starts});
  }
  return lessons;
}

void PlanMemory::restore(const PlanLessons& lessons) {
  for (const PlanLessons::Seen& kept : lessons.seen) {
    if (kept.starts >= kMostStarts) continue;
    const std::optional<double> handed = median_of(kept.hand_over);
    const std::optional<double> waited = median_of(kept.wait);
    if (!handed && !waited) continue;
    Seen& seen = of(kept.situation);
    if (handed) seen.ratios[static_cast<std::size_t>(Way::hand_over)].add(*handed);
    if (waited) seen.ratios[static_cast<std::size_t>(Way::wait)].add(*waited);
    seen.steps = kept.steps;
    seen.starts = kept.starts + 1;
  }
}

PlanMemory::Way PlanMemory::promised(double plan_s, double wait_s) {
  return plan_s <= (1 - kLeastGain) * wait_s ? Way::hand_over : Way::wait;
}

PlanMemory::Way PlanMemory::choose(PlanSituation situation, double plan_s, double wait_s) const {
  const auto found = seen_.find(situation);
  const Seen& seen = found == seen_.end() ? Seen() : found->second;
  const auto expected = [&](Way way, double seconds) {
    const auto& ratios = seen.ratios[static_cast<std::size_t>(way)];
    return ratios.known() == 0 ? seconds : seconds * ratios.median();
  };
  const double handed = expected(Way::hand_over, plan_s);
  const double waited = expected(Way::wait, wait_s);
  const bool hand_over = promised(handed, waited) == Way::hand_over;
  const double better = std::min(handed, waited), worse = std::max(handed, waited);
  const std::uint32_t every = steps_between_tries(better, worse);
  const bool other = seen.steps % every == every - 1;
  return hand_over != other ? Way::hand_over : Way::wait;
}

}  // namespace tandem
