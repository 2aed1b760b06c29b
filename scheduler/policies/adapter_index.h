// Which engines have which adapter, kept by whoever hears it from them, so that a request finds its
// holders without asking every engine.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "scheduler/policies/engine_view.h"

namespace tandem {

// Not thread-safe.
class AdapterIndex {
 public:
  // The tier of an adapter on an engine; absent without requests takes the entry out.
  void set_tier(ClusterAdapterId adapter, EngineIndex engine, AdapterTier tier);
  // Requests with this adapter that came to (+1) or left (-1) an engine. Never below nought.
  void add_active(ClusterAdapterId adapter, EngineIndex engine, std::int32_t change);
  // An engine that is gone.
  void remove_engine(EngineIndex engine);

  // Valid until the next change.
  std::span<const AdapterHold> holds(ClusterAdapterId adapter) const;

 private:
  AdapterHold& entry(ClusterAdapterId adapter, EngineIndex engine);
  void drop_if_nothing(ClusterAdapterId adapter, EngineIndex engine);

  std::unordered_map<ClusterAdapterId, std::vector<AdapterHold>> holds_;
};

}  // namespace tandem
