#include "scheduler/coldstart/plan_memory.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tandem {
namespace {

constexpr std::uint32_t kTryOnceIn = 100;
constexpr double kMuchWorse = 1.5;
// Handing over keeps cores busy that others could use: it has to gain something.
constexpr double kLeastGain = 0.02;
// Beyond, it is as bad, or as good, as anything.
constexpr double kLeastRatio = 0.1, kMostRatio = 10;

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
  Seen& seen = seen_[situation];
  const double ratio = std::clamp(took_s / planned_s, kLeastRatio, kMostRatio);
  seen.ratios[static_cast<std::size_t>(way)].add(ratio);
  ++seen.steps;
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
  const bool hand_over = handed <= (1 - kLeastGain) * waited;
  const double better = std::min(handed, waited), worse = std::max(handed, waited);
  const bool other = seen.steps % kTryOnceIn == kTryOnceIn - 1 && worse <= kMuchWorse * better;
  return hand_over != other ? Way::hand_over : Way::wait;
}

}  // namespace tandem
