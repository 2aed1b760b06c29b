#include "engine/adapters/device_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

std::int64_t most_chunks(const ModelConfig& config, DType dtype, std::int32_t max_rank,
                         const KvCache& memory) {
  std::int64_t elements = 0;
  for (int m = 0; m < kNumModules; ++m) {
    const auto module = static_cast<Module>(m);
    // Rows of B are padded to 16 bytes, matrices to 64.
    elements += max_rank * module_in(config, module) + (max_rank + 8) * module_out(config, module);
    elements += 2 * 32;
  }
  const std::size_t bytes = static_cast<std::size_t>(elements * config.num_layers) * size_of(dtype);
  return std::max<std::int64_t>(1, memory.layout().chunks_for(bytes));
}

}  // namespace

Result<DeviceTable> DeviceTable::create(Device& device, const ModelConfig& config, DType dtype,
                                        std::int32_t max_rank, std::int32_t num_slots,
                                        const KvCache& memory, PagePool& pool) {
  DeviceTable table(memory, pool);
  const std::int64_t all_chunks =
      std::int64_t{pool.shape().num_pages} * pool.shape().chunks_per_page;
  TANDEM_ASSIGN(table.slots_,
                AdapterSlots::create(
                    device, num_slots, config.num_layers,
                    std::min(all_chunks, most_chunks(config, dtype, max_rank, memory)), memory));
  table.rows_.resize(static_cast<std::size_t>(num_slots));
  table.slot_of_.reserve(static_cast<std::size_t>(num_slots));
  for (auto* list : {&table.taken_, &table.resident_, &table.unwritten_}) {
    list->reserve(static_cast<std::size_t>(num_slots));
  }
  return table;
}

std::int32_t DeviceTable::pages_of(const ServedAdapter& adapter) const {
  const std::int64_t chunks = memory_->layout().chunks_for(adapter.bytes());
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
  const std::optional<SlotId> slot = slots_.take();
  TANDEM_CHECK(slot.has_value(), "no slot for adapter '{}'", adapter->name());
  known->second = *slot;
  DeviceRow& taken = row(*slot);
  taken.free_since = std::max(taken.free_since, pool_->last_release(chunks.ids()));
  taken.adapter = adapter;
  taken.chunks = std::move(chunks);
  taken.reading = std::move(reading);
  refresh(taken);
  taken_.push_back(*slot);
  return *slot;
}

void DeviceTable::refresh(DeviceRow& row) {
  const double seconds = pool_->costs().adapter_byte * static_cast<double>(row.adapter->bytes());
  row.worth = pool_->clock().worth(row.uses == 0 ? PoolClock::kMostUses : row.uses,
                                   seconds / std::max(pages_of(*row.adapter), 1));
}

void DeviceTable::arrived(SlotId slot) {
  row(slot).adapter->home().state().apply(ResidencyEvent::loaded);
  resident_.push_back(slot);
}

// The last owner of the adapter may be the row.
void DeviceTable::let_go(SlotId slot) {
  DeviceRow& old = row(slot);
  const AdapterLease adapter = std::move(old.adapter);
  slot_of_.erase(adapter.get());
  std::erase(unwritten_, slot);
  std::erase(taken_, slot);
  ResidencyState& state = adapter->home().state();
  const bool was_resident = std::erase(resident_, slot) > 0;
  if (was_resident) state.apply(ResidencyEvent::evict);
  old = DeviceRow();
  old.free_since = pool_->clock().steps();
  slots_.give_back(slot);
  if (was_resident) {
    state.evicted();
  } else {
    state.load_failed();
  }
}

void DeviceTable::write(Stream& stream, SlotId slot) {
  slots_.write(stream, slot, row(slot).adapter->contents(), row(slot).chunks.ids());
}

void DeviceTable::step_begins(Stream& stream) {
  for (const SlotId slot : unwritten_) write(stream, slot);
  unwritten_.clear();
}

}  // namespace tandem
