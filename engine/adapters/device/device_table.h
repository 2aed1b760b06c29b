// The adapters on the device: a row for each slot in use. Where several devices share a model
// (loader/shard.h), each has its part of the adapter in the same slot and in chunks of the same
// numbers: there is one row, and rows of the device's own tables (AdapterSlots) on each device.
//
// A row is found by the adapter's address. Nothing is stored in the adapter itself, as it may have
// rows in several tables. The row's lease keeps the adapter alive.
//
// Only the engine thread may change it. Threads that enqueue on a device read it, while the engine
// thread does not change it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/ids/slot_id.h"
#include "engine/adapters/served_adapter.h"
#include "engine/memory/chunk_table.h"
#include "engine/memory/kv_cache.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/reclaimable.h"

namespace tandem {

struct DeviceRow {
  AdapterLease adapter;  // null: the slot is free
  ChunkTable chunks;
  std::shared_ptr<AdapterReading> reading;  // if the source was still being read; or null
  std::uint64_t free_since = 0;  // PoolClock::steps(): later steps do not read its memory
  TimePoint ordered{};           // when its load was reserved
  Worth worth;                   // since its last use
  std::uint64_t uses = 0;        // by running sequences, since it was loaded
  std::uint64_t wanted = 0;      // the last round of loads that wanted it
  std::int32_t users = 0;        // running sequences
  bool kept = false;             // never evicted: pinned, or the mode is cached
};

class DeviceTable {
 public:
  // `layout`: of every device's memory. `pool` outlives the table.
  DeviceTable(std::int32_t num_slots, const PoolLayout& layout, PagePool& pool);

  std::int32_t num_slots() const { return static_cast<std::int32_t>(rows_.size()); }
  std::int32_t num_free() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t pages_of(const ServedAdapter& adapter) const;

  // The slot of an adapter, and its row, until let_go(). Invalid or null: it has none.
  SlotId slot_of(const ServedAdapter& adapter) const;
  DeviceRow* find(const ServedAdapter& adapter);
  const DeviceRow* find(const ServedAdapter& adapter) const;
  DeviceRow& row(SlotId slot) { return rows_[slot.index()]; }
  const DeviceRow& row(SlotId slot) const { return rows_[slot.index()]; }

  // Makes a row for an adapter that is loading (ResidencyState::begin_load) and has none; requires
  // a free slot. arrived() makes it resident. If memory runs out, throws and changes nothing; the
  // other functions that move rows never allocate.
  SlotId take(const AdapterLease& adapter, ChunkTable chunks,
              std::shared_ptr<AdapterReading> reading);
  void arrived(SlotId slot);
  // Frees the slot and the chunks of a failed load, or of a resident adapter.
  void let_go(SlotId slot);
  // The slots of all rows, and those of the resident ones.
  std::span<const SlotId> taken() const { return taken_; }
  std::span<const SlotId> resident() const { return resident_; }

 private:
  PoolLayout layout_;
  PagePool* pool_;
  std::vector<DeviceRow> rows_;  // [slots]
  std::vector<SlotId> free_;
  std::unordered_map<const ServedAdapter*, SlotId> slot_of_;
  std::vector<SlotId> taken_;
  std::vector<SlotId> resident_;
};

}  // namespace tandem
