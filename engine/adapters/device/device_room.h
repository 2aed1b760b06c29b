// Chooses the adapters that are evicted when the device needs room: those that are worth least,
// among those that nothing holds there (DeviceHolds). Adapters that are being loaded are never
// evicted. Eviction only frees slots and chunks, as the host tier or the disk has the bytes.
//
// Only the engine thread may use it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "engine/adapters/device/device_holds.h"
#include "engine/adapters/device/device_table.h"
#include "engine/memory/kv_cache.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/reclaimable.h"

namespace tandem {

class DeviceRoom final : public Reclaimable {
 public:
  // All arguments outlive it; it is registered with `pool` until it is destroyed.
  DeviceRoom(DeviceTable& table, const DeviceHolds& holds, const KvCache& memory, PagePool& pool);
  ~DeviceRoom() override;

  // A free slot and the chunks for `bytes`, taken from idle adapters and the prefix cache. No
  // value: there are not enough, and no chunks have been taken.
  std::optional<ChunkTable> make(std::uint64_t bytes);

  std::int32_t pages_of(const ServedAdapter& adapter) const { return table_->pages_of(adapter); }
  std::int32_t num_slots() const { return table_->num_slots(); }
  // An error if the adapter has more chunks than a row of the table (most_chunks_of_row).
  Status check_size(const ServedAdapter& adapter) const;

  // The adapters on the device that are not kept, least recently used first.
  std::vector<AdapterLease> candidates() const;
  // Evicts all adapters that make() or the pool might evict.
  void evict_idle();
  void evict(SlotId slot);
  std::uint64_t num_evicted() const { return num_evicted_; }
  void forget_counts() { num_evicted_ = 0; }

 private:
  std::optional<Worth> least() const override;
  void reclaim_least() override;
  std::int64_t reclaimable_pages() const override;
  SlotId least_slot() const;  // invalid: no adapter is evictable
  std::int64_t idle_chunks() const;

  DeviceTable* table_;
  const DeviceHolds* holds_;
  const KvCache* memory_;
  PagePool* pool_;
  std::uint64_t num_evicted_ = 0;
};

}  // namespace tandem
