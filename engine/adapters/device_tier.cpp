#include "engine/adapters/device_tier.h"

#include <exception>

#include "base/check.h"

namespace tandem {

Result<std::unique_ptr<DeviceTier>> DeviceTier::create(Device& device, const ModelConfig& config,
                                                       DType dtype, std::int32_t max_rank,
                                                       std::int32_t num_slots,
                                                       const KvCache& memory, PagePool& pool,
                                                       const LoadSignals& signals) {
  TANDEM_ASSIGN(DeviceTable table,
                DeviceTable::create(device, config, dtype, max_rank, num_slots, memory, pool));
  std::unique_ptr<DeviceTier> tier(new DeviceTier(std::move(table), memory, pool));
  TANDEM_ASSIGN(tier->loads_, LoadQueue::create(device, signals, tier->table_, memory));
  tier->ended_.reserve(static_cast<std::size_t>(num_slots));
  return tier;
}

// Loads that are under way end with their queue; the device may be broken, its memory goes all the
// same.
DeviceTier::~DeviceTier() {
  loads_.reset();
  while (!table_.taken().empty()) table_.let_go(table_.taken().back());
}

Status DeviceTier::poll() {
  TANDEM_CHECK(!in_turn_, "loads are being ordered");
  ended_.clear();
  if (Status failed = loads_->poll(ended_); !failed) {
    for (const SlotId slot : ended_) table_.let_go(slot);
    return failed;
  }
  for (const SlotId slot : ended_) arrived(slot);
  let_go_of_retired();
  return {};
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
      row.reading->end_if_overdue();  // somebody may hold back tokens until it is known
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
  if (!loads_->is_torn()) return {};
  ended_.clear();
  Status status = loads_->abandon(ended_);
  for (const SlotId slot : ended_) table_.let_go(slot);
  return status;
}

void DeviceTier::forget_counts() {
  num_loads_ = 0;
  loaded_bytes_ = 0;
  room_.forget_counts();
  loads_->forget_counts();
}

Status DeviceTier::finish_loads() {
  TANDEM_TRY(loads_->finish());
  return poll();
}

DeviceTier::Turn::Turn(DeviceTier& tier) : tier_(&tier) {
  TANDEM_CHECK(!std::exchange(tier.in_turn_, true), "one turn at a time");
}

DeviceTier::Turn::~Turn() {
  try {
    if (!tier_->loads_->is_torn()) enqueue({});
  } catch (const std::exception&) {  // the queue knows, and says so at its next poll()
  }
  tier_->room_.end_turn();
  tier_->in_turn_ = false;
}

DeviceTier::Start DeviceTier::Turn::reserve(const AdapterLease& adapter) {
  if (tier_->table_.slot_of(*adapter).valid()) return Start::on_its_way;
  AdapterHome::Copy source = adapter->home().copy();
  if (source.bytes == nullptr) return Start::not_in_host_tier;
  if (tier_->loads_->is_full()) return Start::busy;
  reserved_.reserve(reserved_.size() + 1);
  slots_.reserve(slots_.size() + 1);
  std::optional<ChunkTable> chunks = tier_->room_.make(adapter->bytes());
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
    tier_->loads_->reserve(slot, std::move(source.bytes));
  } catch (...) {
    tier_->table_.let_go(slot);
    throw;
  }
  reserved_.push_back(adapter);
  slots_.push_back(slot);
  return Start::on_its_way;
}

void DeviceTier::Turn::enqueue(std::span<const LoadPiece> order) {
  tier_->loads_->enqueue(slots_, order);
  reserved_.clear();
  slots_.clear();
}

// The rows of the device's tables before all that reads them.
void DeviceTier::step_begins(Stream& stream) {
  in_step_ = true;
  table_.step_begins(stream);
}

void DeviceTier::step_ends(Stream& stream) {
  loads_->step_enqueued(stream, pool_->clock().steps() + 1);
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

// Where its load came to nothing there is nothing to leave any more.
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
  return {slot, adapter.contents().max_rank};
}

AdapterProof DeviceTier::proof(const ServedAdapter& adapter) const {
  const DeviceRow* const row = table_.find(adapter);
  return row == nullptr ? AdapterProof() : AdapterProof(row->reading);
}

DeviceTierCounts DeviceTier::counts() const {
  DeviceTierCounts counts;
  counts.resident = static_cast<std::int64_t>(table_.resident().size());
  counts.loading = static_cast<std::int64_t>(loads_->num_loading());
  counts.loads = num_loads_;
  counts.loaded_bytes = loaded_bytes_;
  counts.evictions = room_.num_evicted();
  return counts;
}

}  // namespace tandem
