#include "scheduler/cluster/simulator/adapter_cache.h"

#include "base/check.h"

namespace tandem {

AdapterCache::Entry& AdapterCache::entry(ClusterAdapterId adapter) {
  const auto found = entries_.find(adapter);
  TANDEM_CHECK(found != entries_.end(), "adapter {} is absent", adapter.value());
  return found->second;
}

AdapterCache::State AdapterCache::state(ClusterAdapterId adapter) const {
  const auto found = entries_.find(adapter);
  if (found == entries_.end()) return State::absent;
  return found->second.here ? State::here : State::arriving;
}

void AdapterCache::hold(Entry& entry) {
  if (!idle(entry)) return;
  idle_.erase(entry.place);
  held_bytes_ += entry.bytes;
}

void AdapterCache::release(ClusterAdapterId adapter, Entry& entry) {
  if (!idle(entry)) return;
  entry.place = idle_.insert(idle_.end(), adapter);
  held_bytes_ -= entry.bytes;
}

bool AdapterCache::begin(ClusterAdapterId adapter, std::int64_t bytes,
                         const std::function<void(ClusterAdapterId)>& evicted) {
  TANDEM_CHECK(state(adapter) == State::absent, "adapter {} twice", adapter.value());
  if (bytes > available_bytes()) return false;
  while (used_bytes_ + bytes > capacity_bytes_) {
    const ClusterAdapterId oldest = idle_.front();
    idle_.pop_front();
    used_bytes_ -= entry(oldest).bytes;
    entries_.erase(oldest);
    evicted(oldest);
  }
  entries_[adapter].bytes = bytes;
  used_bytes_ += bytes;
  held_bytes_ += bytes;
  return true;
}

void AdapterCache::arrived(ClusterAdapterId adapter) {
  Entry& one = entry(adapter);
  TANDEM_CHECK(!one.here, "adapter {} arrived twice", adapter.value());
  one.here = true;
  release(adapter, one);
}

void AdapterCache::touch(ClusterAdapterId adapter) {
  Entry& one = entry(adapter);
  if (idle(one)) idle_.splice(idle_.end(), idle_, one.place);
}

void AdapterCache::pin(ClusterAdapterId adapter) {
  Entry& one = entry(adapter);
  hold(one);
  ++one.pins;
}

void AdapterCache::unpin(ClusterAdapterId adapter) {
  Entry& one = entry(adapter);
  TANDEM_CHECK(one.pins > 0, "adapter {} is not pinned", adapter.value());
  --one.pins;
  release(adapter, one);
}

}  // namespace tandem
