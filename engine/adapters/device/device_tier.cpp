#include "engine/adapters/device/device_tier.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "engine/loader/shard.h"

namespace tandem {

Result<std::unique_ptr<DeviceTier>> DeviceTier::create(const std::vector<TierDevice>& devices,
                                                       const ModelSpec& spec, DType dtype,
                                                       std::int32_t max_rank,
                                                       std::int32_t num_slots, PagePool& pool,
                                                       const LoadSignals& signals) {
  const ModelSpec shape = shape_of_shard(spec, static_cast<std::int32_t>(devices.size()));
  const std::int64_t all_chunks =
      std::int64_t{pool.shape().num_pages} * pool.shape().chunks_per_page;
  std::vector<AdapterSlots> slots;
  for (const TierDevice& device : devices) {
    TANDEM_ASSIGN(slots.emplace_back(),
                  AdapterSlots::create(device, shape, dtype, max_rank, num_slots, all_chunks));
  }
  std::unique_ptr<DeviceTier> tier(
      new DeviceTier(num_slots, *devices.front().memory, pool, signals.clock));
  TANDEM_ASSIGN(tier->loads_,
                DeviceLoads::create(devices, std::move(slots), spec, signals, tier->table_));
  return tier;
}

// Loads in flight end with their queue. If the device is broken, its memory is freed all the same.
DeviceTier::~DeviceTier() {
  loads_ = DeviceLoads();
  while (!table_.taken().empty()) table_.let_go(table_.taken().back());
}

Status DeviceTier::poll() {
  TANDEM_CHECK(!in_turn_, "loads are being ordered");
  Result<std::span<const SlotId>> there = loads_.poll();
  if (!there) {
    (void)give_up_loads();
    return there.status();
  }
  for (const SlotId slot : *there) arrived(slot);
  let_go_of_retired();
  return {};
}

// Gives up the loads on all devices, after a failure of one.
Status DeviceTier::give_up_loads() noexcept {
  Status status = loads_.abandon();
  for (std::size_t i = table_.taken().size(); i-- > 0;) {
    const SlotId slot = table_.taken()[i];
    if (std::ranges::find(table_.resident(), slot) == table_.resident().end()) table_.let_go(slot);
  }
  loading_bytes_ = 0;
  return status;
}

void DeviceTier::arrived(SlotId slot) {
  const DeviceRow& row = table_.row(slot);
  if (clock_ != nullptr) {
    counts_.load_times.count(kAdapterLoadBounds, seconds_between(row.ordered, clock_->now()));
  }
  table_.arrived(slot);
  ++counts_.loads;
  counts_.loaded_bytes += row.adapter->bytes();
  loading_bytes_ -= static_cast<std::int64_t>(row.adapter->device_bytes());
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
  if (!loads_.is_torn()) return {};
  return give_up_loads();
}

void DeviceTier::forget_counts() {
  counts_ = {};
  room_.forget_counts();
}

Status DeviceTier::finish_loads() {
  TANDEM_TRY(loads_.finish());
  return poll();
}

DeviceTier::Turn::Turn(DeviceTier& tier) : tier_(&tier) {
  TANDEM_CHECK(!std::exchange(tier.in_turn_, true), "one turn at a time");
}

DeviceTier::Turn::~Turn() {
  try {
    if (!tier_->loads_.is_torn()) enqueue({});
  } catch (const std::exception&) {  // the loads are torn, so the next poll() throws
  }
  tier_->holds_.end_turn();
  tier_->in_turn_ = false;
}

DeviceTier::Start DeviceTier::Turn::reserve(const AdapterLease& adapter) {
  if (tier_->table_.slot_of(*adapter).valid()) return Start::on_its_way;
  AdapterHome::Copy source = adapter->home().copy();
  if (source.bytes == nullptr) return Start::not_in_host_tier;
  if (tier_->loads_.first().is_full()) return Start::busy;
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
  DeviceRow& row = tier_->table_.row(slot);
  if (tier_->clock_ != nullptr) row.ordered = tier_->clock_->now();
  tier_->holds_.refresh(row);
  try {
    tier_->loads_.reserve(slot, source.bytes);
  } catch (...) {
    tier_->table_.let_go(slot);
    throw;
  }
  tier_->loading_bytes_ += static_cast<std::int64_t>(adapter->device_bytes());
  reserved_.push_back(adapter);
  slots_.push_back(slot);
  return Start::on_its_way;
}

void DeviceTier::Turn::enqueue(std::span<const LoadPiece> order) {
  tier_->loads_.enqueue(slots_, order);
  reserved_.clear();
  slots_.clear();
}

// Writes the rows of the device's tables before the operations that read them.
void DeviceLane::step_begins(Stream& stream) const {
  loads().stream().step_begins(stream);
}

void DeviceLane::step_ends(Stream& stream) const {
  loads().stream().step_ends(stream, tier_->pool_->clock().steps() + 1);
}

void DeviceTier::step_ends() {
  pool_->clock().step_enqueued();
  in_step_ = false;
}

AdapterSlot DeviceTier::slot(const ServedAdapter& adapter) const {
  const SlotId slot = table_.slot_of(adapter);
  TANDEM_CHECK(slot.valid(), "adapter '{}' is not on the device", adapter.name());
  const Adapter& contents = adapter.contents();
  return {slot, contents.max_rank, contents.site_ranks, contents.has_bias};
}

AdapterProof DeviceTier::proof(const ServedAdapter& adapter) const {
  const DeviceRow* const row = table_.find(adapter);
  return row == nullptr ? AdapterProof() : AdapterProof(row->reading);
}

DeviceTierCounts DeviceTier::counts() const {
  DeviceTierCounts counts = counts_;
  counts.resident = static_cast<std::int64_t>(table_.resident().size());
  counts.loading = static_cast<std::int64_t>(num_loading());
  counts.loading_bytes = loading_bytes_;
  counts.evictions = room_.num_evicted();
  return counts;
}

}  // namespace tandem
