// One tier of one engine: adapters within a number of bytes, the least recently used leave first.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <unordered_map>

#include "scheduler/policies/engine_view.h"

namespace tandem {

// Not thread-safe.
class AdapterCache {
 public:
  explicit AdapterCache(std::int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  enum class State { absent, arriving, here };
  State state(ClusterAdapterId adapter) const;

  // Takes room for one that is absent, which arrives from now on; false: what is pinned or arriving
  // leaves too little. `evicted` hears of each that had to leave.
  bool begin(ClusterAdapterId adapter, std::int64_t bytes,
             const std::function<void(ClusterAdapterId)>& evicted);
  void arrived(ClusterAdapterId adapter);
  // One that is not absent: it is the most recently used now.
  void touch(ClusterAdapterId adapter);
  // While pinned it stays. Pins are counted.
  void pin(ClusterAdapterId adapter);
  void unpin(ClusterAdapterId adapter);

  // Of adapters that are here and not pinned, and free ones.
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
  std::int64_t used_bytes_ = 0;  // of all
  std::int64_t held_bytes_ = 0;  // of those that are not idle
  std::unordered_map<ClusterAdapterId, Entry> entries_;
  std::list<ClusterAdapterId> idle_;  // the least recently used first
};

}  // namespace tandem
