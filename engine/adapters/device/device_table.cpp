#include "engine/adapters/device/device_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {

DeviceTable::DeviceTable(std::int32_t num_slots, const PoolLayout& layout, PagePool& pool)
    : layout_(layout), pool_(&pool) {
  const auto count = static_cast<std::size_t>(num_slots);
  rows_.resize(count);
  slot_of_.reserve(count);
  for (auto* list : {&taken_, &resident_, &free_}) list->reserve(count);
  for (std::int32_t slot = num_slots - 1; slot >= 0; --slot) free_.emplace_back(slot);
}

std::int32_t DeviceTable::pages_of(const ServedAdapter& adapter) const {
  const std::int64_t chunks = layout_.chunks_for(adapter.device_bytes());
  return static_cast<std::int32_t>((chunks + pool_->shape().chunks_per_page - 1) /
                                   pool_->shape().chunks_per_page);
}

SlotId DeviceTable::slot_of(const ServedAdapter& adapter) const {
  const auto found = slot_of_.find(&adapter);
  return found == slot_of_.end() ? SlotId() : found->second;
}

DeviceRow* DeviceTable::find(const ServedAdapter& adapter) {
  const SlotId slot = slot_of(adapter);
  return !slot.valid() ? nullptr : &row(slot);
}

const DeviceRow* DeviceTable::find(const ServedAdapter& adapter) const {
  const SlotId slot = slot_of(adapter);
  return !slot.valid() ? nullptr : &row(slot);
}

SlotId DeviceTable::take(const AdapterLease& adapter, ChunkTable chunks,
                         std::shared_ptr<AdapterReading> reading) {
  const auto [known, is_new] = slot_of_.emplace(adapter.get(), SlotId());
  TANDEM_CHECK(is_new, "adapter '{}' has a slot", adapter->name());
  TANDEM_CHECK(!free_.empty(), "no slot for adapter '{}'", adapter->name());
  const SlotId slot = free_.back();
  free_.pop_back();
  known->second = slot;
  DeviceRow& taken = row(slot);
  taken.free_since = std::max(taken.free_since, pool_->last_release(chunks.ids()));
  taken.adapter = adapter;
  taken.chunks = std::move(chunks);
  taken.reading = std::move(reading);
  taken_.push_back(slot);
  return slot;
}

void DeviceTable::arrived(SlotId slot) {
  row(slot).adapter->home().state().apply(ResidencyEvent::loaded);
  resident_.push_back(slot);
}

// Keeps a lease to the end, as the row's may be the last.
void DeviceTable::let_go(SlotId slot) {
  DeviceRow& old = row(slot);
  const AdapterLease adapter = std::move(old.adapter);
  slot_of_.erase(adapter.get());
  std::erase(taken_, slot);
  ResidencyState& state = adapter->home().state();
  const bool was_resident = std::erase(resident_, slot) > 0;
  if (was_resident) state.apply(ResidencyEvent::evict);
  old = DeviceRow();
  old.free_since = pool_->clock().steps();
  free_.push_back(slot);
  if (was_resident) {
    state.evicted();
  } else {
    state.load_failed();
  }
}

}  // namespace tandem
