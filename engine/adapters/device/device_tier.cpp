#include "engine/adapters/device/device_tier.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"

namespace tandem {

Result<std::unique_ptr<DeviceTier>> DeviceTier::create(std::span<const TierDevice> devices,
                                                       const ModelSpec& spec, DType dtype,
                                                       std::int32_t max_rank,
                                                       std::int32_t num_slots, PagePool& pool,
                                                       const LoadSignals& signals) {
  TANDEM_ASSIGN(DeviceTable table,
                DeviceTable::create(devices, spec, dtype, max_rank, num_slots, pool));
  std::unique_ptr<DeviceTier> tier(new DeviceTier(std::move(table), *devices.front().memory, pool));
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    LoadSignals told = signals;
    if (rank > 0) told.cold_starts = nullptr;  // the loads on other ranks are the same
    TANDEM_ASSIGN(auto loads, LoadQueue::create(devices[rank], rank, spec, told, tier->table_));
    tier->loads_.push_back(std::move(loads));
  }
  tier->ended_.reserve(static_cast<std::size_t>(num_slots));
  return tier;
}

// Loads in flight end with their queue. If the device is broken, its memory is freed all the same.
DeviceTier::~DeviceTier() {
  loads_.clear();
  while (!table_.taken().empty()) table_.let_go(table_.taken().back());
}

Status DeviceTier::poll() {
  TANDEM_CHECK(!in_turn_, "loads are being ordered");
  // The number of devices so far; a slot counts here if it has arrived on all of them.
  std::size_t devices = 0;
  for (const auto& loads : loads_) {
    ended_.clear();
    if (Status failed = loads->poll(ended_); !failed) {
      (void)give_up_loads();
      return failed;
    }
    for (const SlotId slot : ended_) {
      DeviceRow& row = table_.row(slot);
      if (row.arrived_on == devices || devices == 0) row.arrived_on = devices + 1;
    }
    ++devices;
  }
  for (const SlotId slot : ended_) {
    if (table_.row(slot).arrived_on != devices) continue;
    for (const auto& loads : loads_) loads->end(slot);
    arrived(slot);
  }
  let_go_of_retired();
  return {};
}

// Gives up the loads on all devices, after a failure of one.
Status DeviceTier::give_up_loads() noexcept {
  Status status;
  for (const auto& loads : loads_) {
    ended_.clear();
    if (Status failed = loads->abandon(ended_); !failed && status.ok()) status = std::move(failed);
  }
  for (std::size_t i = table_.taken().size(); i-- > 0;) {
    const SlotId slot = table_.taken()[i];
    if (std::ranges::find(table_.resident(), slot) == table_.resident().end()) table_.let_go(slot);
  }
  return status;
}

bool DeviceTier::is_torn() const {
  return std::ranges::any_of(loads_, [](const auto& loads) { return loads->is_torn(); });
}

bool DeviceTier::has_room() const {
  return std::ranges::all_of(loads_, [](const auto& loads) { return loads->has_room(); });
}

void DeviceTier::feed() {
  for (const auto& loads : loads_) loads->feed();
}

void DeviceTier::arrived(SlotId slot) {
  table_.arrived(slot);
  ++num_loads_;
  loaded_bytes_ += table_.row(slot).adapter->bytes();
}

void DeviceTier::let_go_of_retired() {
  retiring_ = false;
  for (std::size_t i = table_.resident().size(); i-- > 0;) {
    const SlotId slot = table_.resident()[i];
    DeviceRow& row = table_.row(slot);
    AdapterReading::State content = AdapterReading::State::good;
    if (row.reading != nullptr) {
      row.reading->end_if_overdue();  // requests may hold back tokens until then
      content = row.reading->state();
    }
    if (content == AdapterReading::State::good) row.reading.reset();
    const bool bad = content == AdapterReading::State::bad;
    if (!row.adapter->retired() && !bad) continue;
    if (bad ? row.users == 0 : row.adapter.use_count() == 1) {
      room_.evict(slot);
    } else {
      retiring_ = true;
    }
  }
}

Status DeviceTier::abandon() noexcept {
  if (std::exchange(in_step_, false)) pool_->clock().step_enqueued();  // and has ended
  if (!is_torn()) return {};
  return give_up_loads();
}

void DeviceTier::forget_counts() {
  num_loads_ = 0;
  loaded_bytes_ = 0;
  room_.forget_counts();
  for (const auto& loads : loads_) loads->forget_counts();
}

Status DeviceTier::finish_loads() {
  for (const auto& loads : loads_) TANDEM_TRY(loads->finish());
  return poll();
}

DeviceTier::Turn::Turn(DeviceTier& tier) : tier_(&tier) {
  TANDEM_CHECK(!std::exchange(tier.in_turn_, true), "one turn at a time");
}

DeviceTier::Turn::~Turn() {
  try {
    if (!tier_->is_torn()) enqueue({});
  } catch (const std::exception&) {  // is_torn() is set, so the next poll() throws
  }
  tier_->room_.end_turn();
  tier_->in_turn_ = false;
}

DeviceTier::Start DeviceTier::Turn::reserve(const AdapterLease& adapter) {
  if (tier_->table_.slot_of(*adapter).valid()) return Start::on_its_way;
  AdapterHome::Copy source = adapter->home().copy();
  if (source.bytes == nullptr) return Start::not_in_host_tier;
  if (tier_->loads().is_full()) return Start::busy;
  reserved_.reserve(reserved_.size() + 1);
  slots_.reserve(slots_.size() + 1);
  std::optional<ChunkTable> chunks = tier_->room_.make(adapter->device_bytes());
  if (!chunks) return Start::no_room;
  ResidencyState& state = adapter->home().state();
  if (!state.begin_load()) return Start::not_in_host_tier;
  SlotId slot;
  try {
    slot = tier_->table_.take(adapter, *std::move(chunks), std::move(source.reading));
  } catch (...) {
    state.load_failed();
    throw;
  }
  try {
    if (++tier_->generation_ == 0) ++tier_->generation_;
    for (const auto& loads : tier_->loads_) {
      loads->reserve(slot, source.bytes, tier_->generation_);
    }
  } catch (...) {
    for (const auto& loads : tier_->loads_) loads->forget(slot);
    tier_->table_.let_go(slot);
    throw;
  }
  reserved_.push_back(adapter);
  slots_.push_back(slot);
  return Start::on_its_way;
}

void DeviceTier::Turn::enqueue(std::span<const LoadPiece> order) {
  for (const auto& loads : tier_->loads_) loads->enqueue(slots_, order);
  reserved_.clear();
  slots_.clear();
}

// Writes the rows of the device's tables before the operations that read them.
void DeviceLane::step_begins(Stream& stream) const {
  tier_->table_.step_begins(rank_, stream);
}

void DeviceLane::step_ends(Stream& stream) const {
  loads().step_enqueued(stream, tier_->pool_->clock().steps() + 1);
}

void DeviceTier::step_ends() {
  pool_->clock().step_enqueued();
  in_step_ = false;
}

void DeviceTier::enter(const ServedAdapter& adapter) {
  DeviceRow* const row = table_.find(adapter);
  TANDEM_CHECK(row != nullptr, "adapter '{}' is not on the device", adapter.name());
  ++row->users;
  table_.refresh(*row);
}

void DeviceTier::count_use(const ServedAdapter& adapter) {
  DeviceRow* const row = table_.find(adapter);
  TANDEM_CHECK(row != nullptr, "adapter '{}' is not on the device", adapter.name());
  ++row->uses;
  table_.refresh(*row);
}

// After a failed load there is no row.
void DeviceTier::leave(const ServedAdapter& adapter) {
  DeviceRow* const row = table_.find(adapter);
  if (row == nullptr) return;
  TANDEM_CHECK(row->users > 0, "adapter '{}' is left twice", adapter.name());
  --row->users;
  table_.refresh(*row);
}

AdapterSlot DeviceTier::slot(const ServedAdapter& adapter) const {
  const SlotId slot = table_.slot_of(adapter);
  TANDEM_CHECK(slot.valid(), "adapter '{}' is not on the device", adapter.name());
  return {slot, adapter.contents().max_rank, adapter.contents().site_ranks};
}

AdapterProof DeviceTier::proof(const ServedAdapter& adapter) const {
  const DeviceRow* const row = table_.find(adapter);
  return row == nullptr ? AdapterProof() : AdapterProof(row->reading);
}

DeviceTierCounts DeviceTier::counts() const {
  DeviceTierCounts counts;
  counts.resident = static_cast<std::int64_t>(table_.resident().size());
  counts.loading = static_cast<std::int64_t>(num_loading());
  counts.loads = num_loads_;
  counts.loaded_bytes = loaded_bytes_;
  counts.evictions = room_.num_evicted();
  return counts;
}

}  // namespace tandem
