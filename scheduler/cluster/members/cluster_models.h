// The models of a cluster: bases and adapters by name, the engines that have them, and where they
// are there.
//
// Used on the loop's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "scheduler/cluster/members/engine_source.h"
#include "scheduler/cluster/policies/adapter_index.h"
#include "scheduler/cluster/report/engine_report.h"

namespace tandem {

// A name that requests may use: a base model or an adapter.
struct ClusterModel {
  ClusterAdapterId adapter;  // not valid: a base
  std::int32_t rank = 0;
  std::int64_t bytes = 0;
  bool offered = false;  // every engine can load it
  std::string offered_digest;
  std::vector<EngineIndex> engines;  // engines that have it, up or not; ascending

  // Whether the engine has it or can load it.
  bool is_served_by(EngineIndex engine) const {
    return offered || std::ranges::binary_search(engines, engine);
  }
};

// An adapter of one engine, as reported.
struct HeldAdapter {
  AdapterTier tier = AdapterTier::absent;
  std::int32_t active = 0;
  bool pinned = false;
  std::string digest = {};  // kept while the engine is set aside
};

// The engines with an adapter on the device.
struct AdapterPlaces {
  std::string name;
  std::int32_t rank;
  std::int64_t bytes;
  std::int64_t engines;               // engines that have it at all
  std::vector<EngineIndex> resident;  // on the device, or on the way there
  std::vector<EngineIndex> pinned;
};

class ClusterModels {
 public:
  // Null: there is none.
  const ClusterModel* find(const std::string& name) const;
  const HeldAdapter* held(EngineIndex engine, const std::string& name) const;
  std::span<const AdapterHold> holds(const ClusterModel& model) const {
    return index_.holds(model.adapter);
  }
  // Returns the places of each known adapter, in the order of names.
  std::vector<AdapterPlaces> places() const;

  // Sets all adapters that every engine loads on request.
  void set_offered(const std::vector<OfferedAdapter>& adapters);
  void add_base(const std::string& name, EngineIndex engine);
  void drop_base(const std::string& name, EngineIndex engine) { unlist(name, engine); }
  void take(EngineIndex engine, const AdapterReport& adapter);
  void drop(EngineIndex engine, const std::string& name);
  // Removes all adapters of the engine, with their active requests.
  void drop_all(EngineIndex engine);
  // The engine does not report: its adapters stay listed, so that the error for a request for one
  // asks to retry, and does not say that the model is unknown.
  void set_aside(EngineIndex engine);
  // Adds requests with this adapter, if it is valid, that arrived at (1) or left (-1) an engine.
  void add_active(ClusterAdapterId adapter, EngineIndex engine, std::int32_t change);

 private:
  using Models = std::unordered_map<std::string, ClusterModel>;
  using Adapters = std::unordered_map<std::string, HeldAdapter>;

  ClusterModel& model(const std::string& name, bool is_adapter);
  Adapters& adapters(EngineIndex engine);
  static bool is_unknown(const ClusterModel& model) {
    return model.engines.empty() && !model.offered;
  }
  Models::iterator forget(Models::iterator model);
  ClusterAdapterId take_id(const std::string& name);
  void list(ClusterModel& model, EngineIndex engine);
  void unlist(const std::string& name, EngineIndex engine);

  Models models_;
  std::vector<Adapters> adapters_;              // of each engine
  std::unordered_set<std::int32_t> taken_ids_;  // adapter ids in use
  AdapterIndex index_;
};

}  // namespace tandem
