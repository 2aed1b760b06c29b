// Whose adapters give way on the device when room is wanted: those worth least that no running
// sequence uses, nobody wants in this turn, and that are not kept for good. What is being loaded
// never does. Eviction only lets slots and chunks go, since the host tier or the disk has the
// bytes.
//
// The engine thread alone uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/adapters/device/device_table.h"
#include "engine/memory/kv_cache.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/reclaimable.h"

namespace tandem {

class DeviceRoom final : public Reclaimable {
 public:
  // All outlive it; registered with `pool` until it goes.
  DeviceRoom(DeviceTable& table, const KvCache& memory, PagePool& pool);
  ~DeviceRoom() override;

  // A free slot and the chunks for so many bytes, taken from idle adapters and the prefix cache.
  // Nothing: there are not enough, and no chunk has been taken from anybody.
  std::optional<ChunkTable> make(std::uint64_t bytes);

  // Never evicts it from now on, until it is retired; requires that it is on the device or on its
  // way.
  void keep(const ServedAdapter& adapter);
  bool is_kept(const ServedAdapter& adapter) const;
  // Adapters that are kept, and their pages.
  std::int32_t num_kept() const;
  std::int32_t kept_pages() const;
  std::int32_t pages_of(const ServedAdapter& adapter) const { return table_->pages_of(adapter); }
  std::int32_t num_slots() const { return table_->num_slots(); }

  // Not evicted until the turn ends (DeviceTier::Turn).
  void want(const ServedAdapter& adapter);
  void end_turn() { ++turn_; }

  // On the device and not kept, those used longest ago first.
  std::vector<AdapterLease> candidates() const;
  // All that make() or the pool might.
  void evict_idle();
  void evict(SlotId slot);
  std::uint64_t num_evicted() const { return num_evicted_; }
  void forget_counts() { num_evicted_ = 0; }

 private:
  std::optional<Worth> least() const override;
  void reclaim_least() override;
  std::int64_t reclaimable_pages() const override;
  bool evictable(const DeviceRow& row) const;
  SlotId least_slot() const;  // invalid: none is evictable
  std::int64_t idle_chunks() const;

  DeviceTable* table_;
  const KvCache* memory_;
  PagePool* pool_;
  std::uint64_t turn_ = 1;
  std::uint64_t num_evicted_ = 0;
};

}  // namespace tandem
