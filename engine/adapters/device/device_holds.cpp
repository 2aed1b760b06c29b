#include "engine/adapters/device/device_holds.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {

DeviceRow& DeviceHolds::row_of(const ServedAdapter& adapter) {
  DeviceRow* const row = table_->find(adapter);
  TANDEM_CHECK(row != nullptr, "adapter '{}' is not on the device", adapter.name());
  return *row;
}

void DeviceHolds::enter(const ServedAdapter& adapter) {
  DeviceRow& row = row_of(adapter);
  ++row.users;
  refresh(row);
}

void DeviceHolds::leave(const ServedAdapter& adapter) {
  DeviceRow* const row = table_->find(adapter);
  if (row == nullptr) return;
  TANDEM_CHECK(row->users > 0, "adapter '{}' is left twice", adapter.name());
  --row->users;
  refresh(*row);
}

void DeviceHolds::count_use(const ServedAdapter& adapter) {
  DeviceRow& row = row_of(adapter);
  ++row.uses;
  refresh(row);
}

void DeviceHolds::keep(const ServedAdapter& adapter) {
  row_of(adapter).kept = true;
}

bool DeviceHolds::is_kept(const ServedAdapter& adapter) const {
  const DeviceRow* const row = table_->find(adapter);
  return row != nullptr && row->kept;
}

std::int32_t DeviceHolds::num_kept() const {
  return static_cast<std::int32_t>(std::ranges::count_if(
      table_->taken(), [this](SlotId slot) { return table_->row(slot).kept; }));
}

std::int32_t DeviceHolds::kept_pages() const {
  std::int32_t pages = 0;
  for (const SlotId slot : table_->taken()) {
    if (const DeviceRow& row = table_->row(slot); row.kept) pages += table_->pages_of(*row.adapter);
  }
  return pages;
}

void DeviceHolds::want(const ServedAdapter& adapter) {
  if (DeviceRow* const row = table_->find(adapter); row != nullptr) row->wanted = turn_;
}

bool DeviceHolds::is_held(const DeviceRow& row) const {
  return row.users > 0 || row.kept || row.wanted == turn_;
}

void DeviceHolds::refresh(DeviceRow& row) {
  const double seconds =
      pool_->costs().adapter_byte * static_cast<double>(row.adapter->device_bytes());
  row.worth = pool_->clock().worth(row.uses == 0 ? PoolClock::kMostUses : row.uses,
                                   seconds / std::max(table_->pages_of(*row.adapter), 1));
}

}  // namespace tandem
