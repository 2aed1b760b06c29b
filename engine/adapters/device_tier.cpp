#include "engine/adapters/device_tier.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/check.h"

namespace tandem {
namespace {

// Pieces that may wait behind them: what the planner's order still means something for.
constexpr std::size_t kMostQueued = 16384;

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

Result<std::unique_ptr<DeviceTier>> DeviceTier::create(Device& device, const ModelConfig& config,
                                                       DType dtype, std::int32_t max_rank,
                                                       std::int32_t num_slots,
                                                       const KvCache& memory, PagePool& pool,
                                                       const LoadSignals& signals) {
  TANDEM_CHECK(signals.words == LoadSignals::Words::none || signals.clock != nullptr);
  std::unique_ptr<DeviceTier> tier(new DeviceTier(pool, memory));
  tier->device_ = &device;
  tier->signals_ = signals;
  const std::int64_t all_chunks = std::int64_t{pool.num_pages()} * pool.chunks_per_page();
  TANDEM_ASSIGN(tier->slots_,
                AdapterSlots::create(
                    device, num_slots, config.num_layers,
                    std::min(all_chunks, most_chunks(config, dtype, max_rank, memory)), memory));
  for (auto& step : tier->steps_) step = device.create_event();
  tier->slot_released_.resize(static_cast<std::size_t>(num_slots), 0);
  TANDEM_ASSIGN(tier->stream_, device.create_stream("adapter load"));
  pool.add(*tier);
  return tier;
}

DeviceTier::~DeviceTier() {
  if (stream_ == nullptr) return;
  if (const Status status = stream_->synchronize(); !status) {
    // The device is broken; its memory goes all the same.
  }
  drop_queue();
  for (const AdapterLease& adapter : loading_) arrived(*adapter);
  resident_.insert(resident_.end(), loading_.begin(), loading_.end());
  while (!resident_.empty()) evict(resident_.size() - 1);
  pool_->remove(*this);
}

Status DeviceTier::poll() {
  TANDEM_CHECK(reserved_.empty(), "{} loads are reserved", reserved_.size());
  if (!loading_.empty() && stream_->failed()) {
    Status status = stream_->synchronize();
    for (const AdapterLease& adapter : loading_) {
      end_load(*adapter);
      adapter->state_->load_failed();
      adapter->device_.chunks.clear();
      adapter->device_.reading.reset();
      slots_.give_back(std::exchange(adapter->device_.slot, -1));
    }
    loading_.clear();
    drop_queue();
    return status;
  }
  feed();
  for (AdapterLease& adapter : loading_) {
    if (adapter->device_.reading != nullptr) adapter->device_.reading->end_if_overdue();
    const auto& whole = adapter->device_.whole;
    if (whole == nullptr || !whole->passed()) continue;
    arrived(*adapter);
    resident_.push_back(std::move(adapter));
  }
  std::erase(loading_, nullptr);

  retiring_ = false;
  for (std::size_t i = resident_.size(); i-- > 0;) {
    const bool bad = !resident_[i]->device_status().ok();
    if (!resident_[i]->retired() && !bad) continue;
    if (bad ? resident_[i]->device_.users == 0 : resident_[i].use_count() == 1) {
      if (bad) resident_[i]->device_.kept = false;
      evict(i);
    } else {
      retiring_ = true;
    }
  }
  return {};
}

Status DeviceTier::finish_loads() {
  while (!queue_.empty()) send_next();
  TANDEM_TRY(stream_->synchronize());
  return poll();
}

DeviceTier::Start DeviceTier::start(const AdapterLease& adapter) {
  const Start started = reserve(adapter);
  enqueue({});
  return started;
}

DeviceTier::Start DeviceTier::reserve(const AdapterLease& adapter) {
  ServedAdapter& a = *adapter;
  if (a.device_.slot >= 0) return Start::on_its_way;
  ServedAdapter::HostCopy source = a.host_copy();
  if (source.bytes == nullptr) return Start::not_in_host_tier;
  if (queue_.size() > kMostQueued) return Start::busy;
  if (slots_.num_free() == 0) {
    if (!oldest()) return Start::no_room;
    reclaim_oldest();
  }
  std::optional<ChunkTable> chunks = take_chunks(memory_->layout().chunks_for(a.bytes()));
  if (!chunks) return Start::no_room;
  a.device_.slot = *slots_.take();
  a.device_.chunks = *std::move(chunks);
  a.device_.source = std::move(source.bytes);
  a.device_.reading = std::move(source.reading);
  a.device_.last_use = pool_->stamp();
  if (++generation_ == 0) ++generation_;
  a.device_.generation = generation_;
  a.state_->apply(ResidencyEvent::load);
  loading_.push_back(adapter);
  reserved_.push_back(adapter);
  return Start::on_its_way;
}

// Nothing is taken from anybody when it would not be enough.
std::optional<ChunkTable> DeviceTier::take_chunks(std::int64_t count) {
  const std::int64_t others = pool_->available_pages() - reclaimable_pages();  // free or cached KV
  const std::int64_t available =
      others * pool_->chunks_per_page() + pool_->counts().spare_chunks + idle_chunks();
  if (count > available) return std::nullopt;
  return pool_->take_chunks(count);
}

std::unique_ptr<Event> DeviceTier::take_event() {
  if (spare_events_.empty()) return device_->create_event();
  std::unique_ptr<Event> event = std::move(spare_events_.back());
  spare_events_.pop_back();
  return event;
}

// Rows of the tables are written by the stream that reads them where steps may begin before the
// load has come to anything: so they are true for every step, whatever of the weights is there.
void DeviceTier::step_begins(Stream& stream) {
  for (const AdapterLease& adapter : unwritten_) {
    const ServedAdapter::OnDevice& on_device = adapter->device_;
    slots_.write(stream, on_device.slot, adapter->contents_, on_device.chunks.ids());
  }
  unwritten_.clear();
}

void DeviceTier::step_enqueued(Stream& stream) {
  pool_->step_enqueued();
  stream.record(*steps_[pool_->steps() % steps_.size()]);
}

void DeviceTier::arrived(ServedAdapter& adapter) {
  end_load(adapter);
  adapter.state_->apply(ResidencyEvent::loaded);
  ++counts_.loads;
  counts_.loaded_bytes += adapter.bytes();
}

void DeviceTier::end_load(ServedAdapter& adapter) {
  ServedAdapter::OnDevice& on_device = adapter.device_;
  for (auto* events : {&on_device.layers, &on_device.b_parts}) {
    for (auto& event : *events) {
      if (event != nullptr) spare_events_.push_back(std::move(event));
    }
    events->clear();
  }
  if (on_device.whole != nullptr) spare_events_.push_back(std::move(on_device.whole));
  on_device.source.reset();
  on_device.sent.clear();
}

void DeviceTier::enter(ServedAdapter& adapter) {
  TANDEM_CHECK(adapter.device_.slot >= 0, "adapter '{}' is not on the device", adapter.name_);
  ++adapter.device_.users;
  adapter.device_.last_use = pool_->stamp();
}

void DeviceTier::leave(ServedAdapter& adapter) {
  TANDEM_CHECK(adapter.device_.users > 0, "adapter '{}' is left twice", adapter.name_);
  --adapter.device_.users;
  adapter.device_.last_use = pool_->stamp();
}

void DeviceTier::add_pending(const ServedAdapter& adapter, std::vector<LayerEvents>& pending) {
  const auto& layers = adapter.device_.layers;
  if (!arriving(adapter)) return;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    hurry(adapter, static_cast<std::int64_t>(layer), PieceKind::layer);
  }
  const bool known = std::any_of(pending.begin(), pending.end(), [&](const LayerEvents& each) {
    return each.data() == layers.data();
  });
  if (!known) pending.emplace_back(layers);
}

std::optional<ArrivingAdapter> DeviceTier::arriving(const ServedAdapter& adapter) const {
  const ServedAdapter::OnDevice& on_device = adapter.device_;
  if (on_device.layers.empty()) return std::nullopt;
  if (on_device.whole != nullptr && on_device.whole->passed()) return std::nullopt;
  return ArrivingAdapter{on_device.slot,          on_device.generation, on_device.source,
                         on_device.reading.get(), on_device.layers,     on_device.b_parts,
                         on_device.arrivals};
}

// Eviction.

bool DeviceTier::evictable(const ServedAdapter& adapter) const {
  return adapter.device_.users == 0 && !adapter.device_.kept && adapter.device_.wanted != turn_;
}

std::optional<std::uint64_t> DeviceTier::oldest() const {
  std::optional<std::uint64_t> oldest;
  for (const AdapterLease& each : resident_) {
    if (!evictable(*each)) continue;
    if (!oldest || each->device_.last_use < *oldest) oldest = each->device_.last_use;
  }
  return oldest;
}

void DeviceTier::reclaim_oldest() {
  std::size_t found = resident_.size();
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    if (!evictable(*resident_[i])) continue;
    if (found == resident_.size() ||
        resident_[i]->device_.last_use < resident_[found]->device_.last_use) {
      found = i;
    }
  }
  TANDEM_CHECK(found < resident_.size(), "no idle adapter to reclaim");
  evict(found);
}

void DeviceTier::evict_idle() {
  while (oldest()) reclaim_oldest();
}

void DeviceTier::evict(std::size_t index) {
  const AdapterLease adapter = std::move(resident_[index]);
  resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(index));
  std::erase(unwritten_, adapter);
  adapter->state_->apply(ResidencyEvent::evict);
  adapter->device_.chunks.clear();
  adapter->device_.reading.reset();
  slot_released_[static_cast<std::size_t>(adapter->device_.slot)] = pool_->steps();
  slots_.give_back(std::exchange(adapter->device_.slot, -1));
  adapter->state_->evicted();
  ++counts_.evictions;
}

std::int64_t DeviceTier::idle_chunks() const {
  std::int64_t chunks = 0;
  for (const AdapterLease& each : resident_) {
    if (evictable(*each)) chunks += static_cast<std::int64_t>(each->device_.chunks.ids().size());
  }
  return chunks;
}

std::int64_t DeviceTier::reclaimable_pages() const {
  return idle_chunks() / pool_->chunks_per_page();
}

std::int32_t DeviceTier::pages_of(const ServedAdapter& adapter) const {
  const std::int64_t chunks = memory_->layout().chunks_for(adapter.bytes());
  return static_cast<std::int32_t>((chunks + pool_->chunks_per_page() - 1) /
                                   pool_->chunks_per_page());
}

std::int32_t DeviceTier::kept_pages() const {
  std::int32_t pages = 0;
  for (const auto* list : {&loading_, &resident_}) {
    for (const AdapterLease& each : *list) {
      if (each->device_.kept) pages += pages_of(*each);
    }
  }
  return pages;
}

std::int32_t DeviceTier::num_kept() const {
  std::int32_t kept = 0;
  for (const auto* list : {&loading_, &resident_}) {
    for (const AdapterLease& each : *list) kept += each->device_.kept ? 1 : 0;
  }
  return kept;
}

std::vector<AdapterLease> DeviceTier::candidates() const {
  std::vector<AdapterLease> result;
  for (const AdapterLease& each : resident_) {
    if (!each->device_.kept) result.push_back(each);
  }
  std::sort(result.begin(), result.end(), [](const AdapterLease& a, const AdapterLease& b) {
    return a->device_.last_use < b->device_.last_use;
  });
  return result;
}

DeviceTierCounts DeviceTier::counts() const {
  DeviceTierCounts counts = counts_;
  counts.resident = static_cast<std::int64_t>(resident_.size());
  counts.loading = static_cast<std::int64_t>(loading_.size());
  return counts;
}

}  // namespace tandem
