#include "scheduler/cluster/members/cluster_models.h"

#include <limits>
#include <utility>

#include "scheduler/cluster/policies/policy.h"

namespace tandem {
namespace {

bool is_on_device(const AdapterHold& hold) {
  return hold.tier == AdapterTier::resident || hold.tier == AdapterTier::loading;
}

}  // namespace

const ClusterModel* ClusterModels::find(const std::string& name) const {
  const auto found = models_.find(name);
  return found == models_.end() ? nullptr : &found->second;
}

const HeldAdapter* ClusterModels::held(EngineIndex engine, const std::string& name) const {
  if (engine.index() >= adapters_.size()) return nullptr;
  const Adapters& adapters = adapters_[engine.index()];
  const auto found = adapters.find(name);
  return found == adapters.end() ? nullptr : &found->second;
}

std::vector<AdapterPlaces> ClusterModels::places() const {
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
      const HeldAdapter* const there = held(engine, name);
      if (there != nullptr && there->pinned) places.pinned.push_back(engine);
    }
    result.push_back(std::move(places));
  }
  std::ranges::sort(result, {}, &AdapterPlaces::name);
  return result;
}

void ClusterModels::set_offered(const std::vector<OfferedAdapter>& adapters) {
  for (auto& [name, known] : models_) {
    known.offered = false;
    known.offered_digest.clear();
  }
  for (const OfferedAdapter& adapter : adapters) {
    const auto base = models_.find(adapter.name);
    if (base != models_.end() && !base->second.adapter.valid()) continue;
    ClusterModel& known = model(adapter.name, true);
    known.offered = true;
    known.offered_digest = adapter.digest;
    if (known.engines.empty()) {  // otherwise engines report both
      known.rank = adapter.rank;
      known.bytes = adapter.bytes;
    }
  }
  for (auto at = models_.begin(); at != models_.end();) {
    at = is_unknown(at->second) ? forget(at) : std::next(at);
  }
}

void ClusterModels::add_base(const std::string& name, EngineIndex engine) {
  list(model(name, false), engine);
}

void ClusterModels::take(EngineIndex engine, const AdapterReport& adapter) {
  ClusterModel& known = model(adapter.name, true);
  const auto [place, added] = adapters(engine).try_emplace(adapter.name);
  if (added) list(known, engine);
  if (adapter.rank > 0) {
    known.rank = adapter.rank;
    known.bytes = adapter.bytes;
  }
  HeldAdapter& held = place->second;
  index_.set_tier(known.adapter, engine, adapter.tier);
  index_.add_active(known.adapter, engine, adapter.active - held.active);
  held = {adapter.tier, adapter.active, adapter.pinned, adapter.digest};
}

void ClusterModels::drop(EngineIndex engine, const std::string& name) {
  Adapters& there = adapters(engine);
  const auto place = there.find(name);
  if (place == there.end()) return;
  const ClusterAdapterId adapter = model(name, true).adapter;
  index_.add_active(adapter, engine, -place->second.active);
  index_.set_tier(adapter, engine, AdapterTier::absent);
  there.erase(place);
  unlist(name, engine);
}

void ClusterModels::drop_all(EngineIndex engine) {
  Adapters& there = adapters(engine);
  for (const auto& [name, held] : there) unlist(name, engine);
  there.clear();
  index_.remove_engine(engine);
}

void ClusterModels::set_aside(EngineIndex engine) {
  index_.remove_engine(engine);
  for (auto& [name, held] : adapters(engine)) held = {.digest = std::move(held.digest)};
}

void ClusterModels::add_active(ClusterAdapterId adapter, EngineIndex engine, std::int32_t change) {
  if (adapter.valid()) index_.add_active(adapter, engine, change);
}

ClusterModel& ClusterModels::model(const std::string& name, bool is_adapter) {
  ClusterModel& found = models_[name];
  if (is_adapter && !found.adapter.valid()) found.adapter = take_id(name);
  return found;
}

ClusterModels::Adapters& ClusterModels::adapters(EngineIndex engine) {
  if (engine.index() >= adapters_.size()) adapters_.resize(engine.index() + 1);
  return adapters_[engine.index()];
}

// A hash of the name, so that independent routers hash an adapter to the same engine.
ClusterAdapterId ClusterModels::take_id(const std::string& name) {
  std::uint64_t hash = name.size();
  for (const char c : name) hash = mix_hash(hash, static_cast<unsigned char>(c));
  auto id = static_cast<std::int32_t>(hash & 0x7fffffff);
  while (!taken_ids_.insert(id).second) {
    id = id == std::numeric_limits<std::int32_t>::max() ? 0 : id + 1;
  }
  return ClusterAdapterId(id);
}

void ClusterModels::list(ClusterModel& model, EngineIndex engine) {
  const auto place = std::lower_bound(model.engines.begin(), model.engines.end(), engine);
  if (place == model.engines.end() || *place != engine) model.engines.insert(place, engine);
}

void ClusterModels::unlist(const std::string& name, EngineIndex engine) {
  const auto found = models_.find(name);
  if (found == models_.end()) return;
  std::erase(found->second.engines, engine);
  if (is_unknown(found->second)) forget(found);
}

ClusterModels::Models::iterator ClusterModels::forget(Models::iterator model) {
  taken_ids_.erase(model->second.adapter.value());
  return models_.erase(model);
}

}  // namespace tandem
