// One tier of one engine: adapters within a capacity in bytes; the least recently used is evicted
// first.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <unordered_map>

#include "scheduler/cluster/view/engine_view.h"

namespace tandem {

// Not thread-safe.
class AdapterCache {
 public:
  explicit AdapterCache(std::int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  enum class State { absent, arriving, here };
  State state(ClusterAdapterId adapter) const;

  // Reserves room for an absent adapter, which then counts as arriving; false: pinned and arriving
  // adapters leave too little room. `evicted` is called for each evicted adapter.
  bool begin(ClusterAdapterId adapter, std::int64_t bytes,
             const std::function<void(ClusterAdapterId)>& evicted);
  void arrived(ClusterAdapterId adapter);
  // Marks an adapter that is not absent as the most recently used.
  void touch(ClusterAdapterId adapter);
  // A pinned adapter is not evicted. Pins are counted.
  void pin(ClusterAdapterId adapter);
  void unpin(ClusterAdapterId adapter);

  // Free bytes and those of unpinned adapters that have arrived.
  std::int64_t available_bytes() const { return capacity_bytes_ - held_bytes_; }

 private:
  struct Entry {
    std::int64_t bytes = 0;
    std::int32_t pins = 0;
    bool here = false;
    std::list<ClusterAdapterId>::iterator place;  // in idle_, while idle
  };
  static bool idle(const Entry& entry) { return entry.here && entry.pins == 0; }
  Entry& entry(ClusterAdapterId adapter);
  void hold(Entry& entry);
  void release(ClusterAdapterId adapter, Entry& entry);

  std::int64_t capacity_bytes_;
  std::int64_t used_bytes_ = 0;  // of all entries
  std::int64_t held_bytes_ = 0;  // of entries that are not idle
  std::unordered_map<ClusterAdapterId, Entry> entries_;
  std::list<ClusterAdapterId> idle_;  // the least recently used first
};

}  // namespace tandem
