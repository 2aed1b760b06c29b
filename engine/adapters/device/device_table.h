// The adapters on the device: a row for each slot in use, and for each slot the rows of the
// device's own tables (AdapterSlots). Where several devices share a model (loader/shard.h), each
// has its part of the adapter in the same slot and in chunks of the same numbers: there is one row,
// and tables on each device.
//
// A row is found by the adapter's address. Nothing is stored in the adapter itself, as it may have
// rows in several tables. The row's lease keeps the adapter alive.
//
// Only the engine thread may use it, except for the functions with a device, which the thread that
// enqueues on that device uses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids/slot_id.h"
#include "base/status.h"
#include "engine/adapters/device/adapter_slots.h"
#include "engine/adapters/served_adapter.h"
#include "engine/memory/chunk_table.h"
#include "engine/memory/kv_cache.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/reclaimable.h"
#include "engine/model/model.h"
#include "gpu/device.h"

namespace tandem {

// A device of a model; lists of them are in the order of ranks.
struct TierDevice {
  Device* device = nullptr;
  const KvCache* memory = nullptr;
};

struct DeviceRow {
  AdapterLease adapter;  // null: the slot is free
  ChunkTable chunks;
  std::shared_ptr<AdapterReading> reading;  // if the source was still being read; or null
  std::uint64_t free_since = 0;  // PoolClock::steps(): later steps do not read its memory
  Worth worth;                   // since its last use
  std::uint64_t uses = 0;        // by running sequences, since it was loaded
  std::uint64_t wanted = 0;      // the last round of loads that wanted it
  std::int32_t users = 0;        // running sequences
  std::size_t arrived_on = 0;    // devices, counted from the first, that have the load
  bool kept = false;             // never evicted: pinned, or the mode is cached
};

class DeviceTable {
 public:
  // For adapters of up to `max_rank` of a model of shape `spec`. The devices' memory and `pool`
  // outlive the table.
  static Result<DeviceTable> create(std::span<const TierDevice> devices, const ModelSpec& spec,
                                    DType dtype, std::int32_t max_rank, std::int32_t num_slots,
                                    PagePool& pool);

  std::int32_t num_slots() const { return static_cast<std::int32_t>(rows_.size()); }
  std::int32_t num_free() const { return static_cast<std::int32_t>(free_.size()); }
  std::size_t num_devices() const { return slots_.size(); }
  const AdapterSlots& slots(std::size_t device) const { return slots_[device]; }
  std::int32_t pages_of(const ServedAdapter& adapter) const;

  // The slot of an adapter, and its row, until let_go(). Invalid or null: it has none.
  SlotId slot_of(const ServedAdapter& adapter) const;
  DeviceRow* find(const ServedAdapter& adapter);
  const DeviceRow* find(const ServedAdapter& adapter) const;
  DeviceRow& row(SlotId slot) { return rows_[slot.index()]; }
  const DeviceRow& row(SlotId slot) const { return rows_[slot.index()]; }
  // Updates the worth of an adapter that is needed now. Until it has been used it is worth as much
  // as the most used ones, as a request waits for it.
  void refresh(DeviceRow& row);

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

  // Enqueues the write of a slot's rows in a device's tables. write_later() leaves it to
  // step_begins(): the rows are then valid for every step, even before the weights have arrived.
  void write(std::size_t device, Stream& stream, SlotId slot);
  void write_later(std::size_t device, SlotId slot) { unwritten_[device].push_back(slot); }
  void step_begins(std::size_t device, Stream& stream);

 private:
  DeviceTable(const PoolLayout& layout, PagePool& pool) : layout_(layout), pool_(&pool) {}

  PoolLayout layout_;  // of every device's memory
  PagePool* pool_;
  std::vector<AdapterSlots> slots_;  // [devices]
  std::vector<DeviceRow> rows_;      // [slots]
  std::vector<SlotId> free_;
  std::unordered_map<const ServedAdapter*, SlotId> slot_of_;
  std::vector<SlotId> taken_;
  std::vector<SlotId> resident_;
  std::vector<std::vector<SlotId>> unwritten_;  // [devices]
};

}  // namespace tandem
