#include "scheduler/cluster/policies/adapter_index.h"

#include <algorithm>

namespace tandem {

AdapterHold& AdapterIndex::entry(ClusterAdapterId adapter, EngineIndex engine) {
  std::vector<AdapterHold>& holds = holds_[adapter];
  const auto found = std::find_if(holds.begin(), holds.end(),
                                  [&](const AdapterHold& hold) { return hold.engine == engine; });
  if (found != holds.end()) return *found;
  return holds.emplace_back(AdapterHold{.engine = engine});
}

void AdapterIndex::drop_if_nothing(ClusterAdapterId adapter, EngineIndex engine) {
  const auto found = holds_.find(adapter);
  std::vector<AdapterHold>& holds = found->second;
  std::erase_if(holds, [&](const AdapterHold& hold) {
    return hold.engine == engine && hold.tier == AdapterTier::absent && hold.active_requests == 0;
  });
  if (holds.empty()) holds_.erase(found);
}

void AdapterIndex::set_tier(ClusterAdapterId adapter, EngineIndex engine, AdapterTier tier) {
  entry(adapter, engine).tier = tier;
  if (tier == AdapterTier::absent) drop_if_nothing(adapter, engine);
}

void AdapterIndex::add_active(ClusterAdapterId adapter, EngineIndex engine, std::int32_t change) {
  AdapterHold& hold = entry(adapter, engine);
  hold.active_requests = std::max(0, hold.active_requests + change);
  if (hold.active_requests == 0) drop_if_nothing(adapter, engine);
}

void AdapterIndex::remove_engine(EngineIndex engine) {
  for (auto at = holds_.begin(); at != holds_.end();) {
    std::erase_if(at->second, [&](const AdapterHold& hold) { return hold.engine == engine; });
    at = at->second.empty() ? holds_.erase(at) : std::next(at);
  }
}

std::span<const AdapterHold> AdapterIndex::holds(ClusterAdapterId adapter) const {
  const auto found = holds_.find(adapter);
  if (found == holds_.end()) return {};
  return found->second;
}

}  // namespace tandem
