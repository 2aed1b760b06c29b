#include "engine/adapters/device/device_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/loader/shard.h"

namespace tandem {
namespace {

std::int64_t most_chunks(const ModelSpec& spec, DType dtype, std::int32_t max_rank,
                         const PoolLayout& layout) {
  std::int64_t elements = 0;
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (std::size_t module = 0; module < spec.modules.size(); ++module) {
      // Rows of B are padded to 16 bytes, matrices to 64.
      elements += max_rank * module_in(spec, layer, module) +
                  (max_rank + 8) * module_out(spec, layer, module);
      elements += 2 * 32;
    }
  }
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  return std::max<std::int64_t>(1, layout.chunks_for(bytes));
}

}  // namespace

Result<DeviceTable> DeviceTable::create(std::span<const TierDevice> devices, const ModelSpec& spec,
                                        DType dtype, std::int32_t max_rank, std::int32_t num_slots,
                                        PagePool& pool) {
  const PoolLayout& layout = devices.front().memory->layout();
  DeviceTable table(layout, pool);
  const std::int64_t all_chunks =
      std::int64_t{pool.shape().num_pages} * pool.shape().chunks_per_page;
  const ModelSpec shape = shape_of_shard(spec, static_cast<std::int32_t>(devices.size()));
  const std::int64_t chunks = std::min(all_chunks, most_chunks(shape, dtype, max_rank, layout));
  const auto count = static_cast<std::size_t>(num_slots);
  for (const TierDevice& each : devices) {
    TANDEM_ASSIGN(
        AdapterSlots slots,
        AdapterSlots::create(*each.device, num_slots, spec.num_layers(),
                             static_cast<std::int64_t>(spec.modules.size()), chunks, *each.memory));
    table.slots_.push_back(std::move(slots));
    table.unwritten_.emplace_back().reserve(count);
  }
  table.rows_.resize(count);
  table.slot_of_.reserve(count);
  for (auto* list : {&table.taken_, &table.resident_, &table.free_}) list->reserve(count);
  for (std::int32_t slot = num_slots - 1; slot >= 0; --slot) table.free_.emplace_back(slot);
  return table;
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
  refresh(taken);
  taken_.push_back(slot);
  return slot;
}

void DeviceTable::refresh(DeviceRow& row) {
  const double seconds =
      pool_->costs().adapter_byte * static_cast<double>(row.adapter->device_bytes());
  row.worth = pool_->clock().worth(row.uses == 0 ? PoolClock::kMostUses : row.uses,
                                   seconds / std::max(pages_of(*row.adapter), 1));
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
  for (std::vector<SlotId>& unwritten : unwritten_) std::erase(unwritten, slot);
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

void DeviceTable::write(std::size_t device, Stream& stream, SlotId slot) {
  slots_[device].write(stream, slot, row(slot).adapter->part(), row(slot).chunks.ids());
}

void DeviceTable::step_begins(std::size_t device, Stream& stream) {
  for (const SlotId slot : unwritten_[device]) write(device, stream, slot);
  unwritten_[device].clear();
}

}  // namespace tandem
