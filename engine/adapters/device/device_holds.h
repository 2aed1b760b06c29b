// The reasons for which adapters stay on the device: running sequences use them, they are kept, or
// the round of loads that is being ordered wants them. DeviceRoom may evict the others. Also counts
// uses, from which an adapter's worth follows.
//
// Only the engine thread may use it.
#pragma once

#include <cstdint>

#include "engine/adapters/device/device_table.h"
#include "engine/memory/page_pool.h"

namespace tandem {

class DeviceHolds {
 public:
  // Both outlive it.
  DeviceHolds(DeviceTable& table, PagePool& pool) : table_(&table), pool_(&pool) {}

  // A running sequence uses the adapter from now on; it must be resident or loading.
  void enter(const ServedAdapter& adapter);
  // After a failed load there is nothing to leave.
  void leave(const ServedAdapter& adapter);
  // Counts a use, when the sequence's first rows are computed; an adapter's worth depends on this.
  void count_use(const ServedAdapter& adapter);

  // Excludes the adapter from eviction until it is retired; it must be on the device or loading.
  void keep(const ServedAdapter& adapter);
  bool is_kept(const ServedAdapter& adapter) const;
  // The number of adapters that are kept, and of their pages.
  std::int32_t num_kept() const;
  std::int32_t kept_pages() const;

  // Excludes the adapter from eviction until the round of loads ends (DeviceTier::Turn).
  void want(const ServedAdapter& adapter);
  void end_turn() { ++turn_; }

  bool is_held(const DeviceRow& row) const;
  // Updates the worth of an adapter that is needed now. Until it has been used it is worth as much
  // as the most used ones, as a request waits for it.
  void refresh(DeviceRow& row);

 private:
  DeviceRow& row_of(const ServedAdapter& adapter);

  DeviceTable* table_;
  PagePool* pool_;
  std::uint64_t turn_ = 1;
};

}  // namespace tandem
