// An index from adapter to the engines that have it, so that a request finds them without asking
// every engine. Its owner updates it from the engines' reports.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "scheduler/cluster/view/engine_view.h"

namespace tandem {

// Not thread-safe.
class AdapterIndex {
 public:
  // Sets the tier of an adapter on an engine; `absent` without active requests removes the entry.
  void set_tier(ClusterAdapterId adapter, EngineIndex engine, AdapterTier tier);
  // Adds requests with this adapter that arrived at (+1) or left (-1) an engine. The count stays at
  // least 0.
  void add_active(ClusterAdapterId adapter, EngineIndex engine, std::int32_t change);
  // Removes all entries of an engine that has left.
  void remove_engine(EngineIndex engine);

  // Valid until the next change.
  std::span<const AdapterHold> holds(ClusterAdapterId adapter) const;

 private:
  AdapterHold& entry(ClusterAdapterId adapter, EngineIndex engine);
  void drop_if_nothing(ClusterAdapterId adapter, EngineIndex engine);

  std::unordered_map<ClusterAdapterId, std::vector<AdapterHold>> holds_;
};

}  // namespace tandem
