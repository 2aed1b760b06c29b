#include "engine/adapters/device/device_room.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "base/limits/bytes_text.h"
#include "engine/adapters/device/adapter_slots.h"

namespace tandem {

DeviceRoom::DeviceRoom(DeviceTable& table, const DeviceHolds& holds, const KvCache& memory,
                       PagePool& pool)
    : table_(&table), holds_(&holds), memory_(&memory), pool_(&pool) {
  pool.add(*this);
}

DeviceRoom::~DeviceRoom() {
  pool_->remove(*this);
}

Status DeviceRoom::check_size(const ServedAdapter& adapter) const {
  const std::int64_t most = most_chunks_of_row(num_slots());
  if (memory_->layout().chunks_for(adapter.device_bytes()) <= most) return {};
  return error(
      StatusCode::resource_exhausted,
      "adapter '{}' has {}, with {} places for adapters on the device one may have {}: "
      "lower max_device_adapters",
      adapter.name(), bytes_text(static_cast<double>(adapter.device_bytes())), num_slots(),
      bytes_text(static_cast<double>(most) * static_cast<double>(memory_->layout().chunk_bytes())));
}

std::optional<ChunkTable> DeviceRoom::make(std::uint64_t bytes) {
  if (table_->num_free() == 0) {
    const std::optional<Worth> worth = least();
    if (!worth) return std::nullopt;
    pool_->clock().went(*worth);
    reclaim_least();
  }
  const std::int64_t count = memory_->layout().chunks_for(bytes);
  const std::int64_t others = pool_->available_pages() - reclaimable_pages();  // free or cached KV
  const std::int64_t available =
      others * pool_->shape().chunks_per_page + pool_->counts().spare_chunks + idle_chunks();
  if (count > available) return std::nullopt;
  return pool_->take_chunks(count);
}

std::vector<AdapterLease> DeviceRoom::candidates() const {
  std::vector<const DeviceRow*> rows;
  for (const SlotId slot : table_->resident()) {
    if (const DeviceRow& row = table_->row(slot); !row.kept) rows.push_back(&row);
  }
  std::ranges::sort(rows, std::less{}, [](const DeviceRow* row) { return row->worth.last_use; });
  std::vector<AdapterLease> result;
  result.reserve(rows.size());
  for (const DeviceRow* row : rows) result.push_back(row->adapter);
  return result;
}

void DeviceRoom::evict_idle() {
  while (least()) reclaim_least();
}

void DeviceRoom::evict(SlotId slot) {
  table_->let_go(slot);
  ++num_evicted_;
}

SlotId DeviceRoom::least_slot() const {
  SlotId least;
  for (const SlotId slot : table_->resident()) {
    const DeviceRow& row = table_->row(slot);
    if (holds_->is_held(row)) continue;
    if (!least.valid() || row.worth < table_->row(least).worth) least = slot;
  }
  return least;
}

std::optional<Worth> DeviceRoom::least() const {
  const SlotId slot = least_slot();
  if (!slot.valid()) return std::nullopt;
  return table_->row(slot).worth;
}

void DeviceRoom::reclaim_least() {
  const SlotId slot = least_slot();
  TANDEM_CHECK(slot.valid(), "no idle adapter to reclaim");
  evict(slot);
}

std::int64_t DeviceRoom::idle_chunks() const {
  std::int64_t chunks = 0;
  for (const SlotId slot : table_->resident()) {
    const DeviceRow& row = table_->row(slot);
    if (!holds_->is_held(row)) chunks += static_cast<std::int64_t>(row.chunks.ids().size());
  }
  return chunks;
}

std::int64_t DeviceRoom::reclaimable_pages() const {
  return idle_chunks() / pool_->shape().chunks_per_page;
}

}  // namespace tandem
