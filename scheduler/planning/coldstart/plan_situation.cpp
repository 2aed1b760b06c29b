#include "scheduler/planning/coldstart/plan_situation.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tandem {
namespace {

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
  const bool just_woken =
      request.workers > 0 && request.workers_just_woken_for > std::max(0.0, request.starts_in);
  return {doublings(static_cast<double>(request.adapters.size())), doublings(request.rows),
          doublings(step_s > 0 ? kQuarters * missing_s / step_s : 0), doublings(request.workers),
          static_cast<std::uint8_t>(just_woken ? 1 : 0)};
}

}  // namespace tandem
