// The data that dashboards show about a choice and about the adapters.
#include <algorithm>

#include "scheduler/cluster/members/cluster.h"

namespace tandem {
namespace {

bool is_on_device(const AdapterHold& hold) {
  return hold.tier == AdapterTier::resident || hold.tier == AdapterTier::loading;
}

}  // namespace

RouteReasons Cluster::reasons(const Wanted& wanted, EngineIndex chosen, bool others,
                              TimePoint now) {
  const auto found = models_.find(wanted.model);
  const Model* const model = found == models_.end() ? nullptr : &found->second;
  RouteRequest request = route_request(wanted, model, now);
  request.prefixes = prefixes_.find(wanted.prompt);
  RouteReasons reasons{.tier = request.hold_on(chosen).tier,
                       .estimate = policy_->explain(request, views_[chosen.index()], chosen),
                       .next = {}};
  for (std::size_t i = 0; others && reasons.estimate && i < views_.size(); ++i) {
    const EngineIndex engine(static_cast<std::int32_t>(i));
    if (engine == chosen || !views_[i].accepts || !wanted.allows(i)) continue;
    if (model != nullptr && !model->offered &&
        !std::ranges::binary_search(model->engines, engine)) {
      continue;
    }
    const auto estimate = policy_->explain(request, views_[i], engine);
    if (!estimate || (reasons.next.valid() && estimate->cost_s >= reasons.next_cost_s)) continue;
    reasons.next = engine;
    reasons.next_cost_s = estimate->cost_s;
  }
  return reasons;
}

std::vector<Cluster::AdapterPlaces> Cluster::adapter_places() const {
  std::vector<AdapterPlaces> result;
  for (const auto& [name, model] : models_) {
    if (!model.adapter.valid()) continue;
    AdapterPlaces places{
        name, model.rank, model.bytes, static_cast<std::int64_t>(model.engines.size()), {}, {}};
    for (const AdapterHold& hold : index_.holds(model.adapter)) {
      if (is_on_device(hold)) places.resident.push_back(hold.engine);
    }
    std::ranges::sort(places.resident);
    for (const EngineIndex engine : model.engines) {
      const auto& held = books_[engine.index()].adapters;
      if (const auto found = held.find(name); found != held.end() && found->second.pinned) {
        places.pinned.push_back(engine);
      }
    }
    result.push_back(std::move(places));
  }
  std::ranges::sort(result, {}, &AdapterPlaces::name);
  return result;
}

}  // namespace tandem
