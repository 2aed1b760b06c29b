#include "engine/adapters/device_tier.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace tandem {
namespace {

// A stream's queue is finite, and enqueueing on a full one blocks: what would not fit waits its
// turn. Above it, one load is always allowed.
constexpr std::size_t kMaxOperations = 768;

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

// Where the layer's bytes end: where the next adapted layer's begin.
std::vector<std::size_t> layer_ends(const Adapter& adapter) {
  std::vector<std::size_t> ends(adapter.layers.size());
  std::size_t end = adapter.num_bytes;
  for (std::size_t layer = adapter.layers.size(); layer-- > 0;) {
    ends[layer] = end;
    for (const AdapterMatrix& matrix : adapter.layers[layer]) {
      if (matrix.rank > 0) end = std::min<std::size_t>(end, matrix.a_offset);
    }
  }
  return ends;
}

}  // namespace

Result<std::unique_ptr<DeviceTier>> DeviceTier::create(Device& device, const ModelConfig& config,
                                                       DType dtype, std::int32_t max_rank,
                                                       std::int32_t num_slots,
                                                       const KvCache& memory, PagePool& pool) {
  std::unique_ptr<DeviceTier> tier(new DeviceTier(pool, memory));
  tier->device_ = &device;
  tier->max_rank_ = max_rank;
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
  for (const AdapterLease& adapter : loading_) arrived(*adapter);
  resident_.insert(resident_.end(), loading_.begin(), loading_.end());
  while (!resident_.empty()) evict(resident_.size() - 1);
  pool_->remove(*this);
}

Status DeviceTier::poll() {
  if (!loading_.empty() && stream_->failed()) {
    Status status = stream_->synchronize();
    for (const AdapterLease& adapter : loading_) {
      end_load(*adapter);
      adapter->state_->apply(ResidencyEvent::failed);
      adapter->device_.chunks.clear();
      slots_.give_back(std::exchange(adapter->device_.slot, -1));
    }
    loading_.clear();
    return status;
  }
  std::size_t done = 0;
  while (done < loading_.size() && loading_[done]->device_.layers.back()->passed()) {
    arrived(*loading_[done]);
    resident_.push_back(std::move(loading_[done]));
    ++done;
  }
  loading_.erase(loading_.begin(), loading_.begin() + static_cast<std::ptrdiff_t>(done));

  retiring_ = false;
  for (std::size_t i = resident_.size(); i-- > 0;) {
    if (!resident_[i]->retired()) continue;
    if (resident_[i].use_count() == 1) {
      evict(i);
    } else {
      retiring_ = true;
    }
  }
  return {};
}

Status DeviceTier::finish_loads() {
  TANDEM_TRY(stream_->synchronize());
  return poll();
}

DeviceTier::Start DeviceTier::start(const AdapterLease& adapter) {
  ServedAdapter& a = *adapter;
  if (a.device_.slot >= 0) return Start::on_its_way;
  AdapterBytes source = a.host_bytes();
  if (source == nullptr) return Start::not_in_host_tier;
  if (operations_ > 0 && operations_ + 2 * a.contents_.layers.size() > kMaxOperations) {
    return Start::busy;
  }
  if (slots_.num_free() == 0) {
    if (!oldest()) return Start::no_room;
    reclaim_oldest();
  }
  std::optional<ChunkTable> chunks = take_chunks(memory_->layout().chunks_for(a.bytes()));
  if (!chunks) return Start::no_room;
  a.device_.slot = *slots_.take();
  a.device_.chunks = *std::move(chunks);
  a.device_.source = std::move(source);
  a.device_.last_use = pool_->stamp();
  a.state_->apply(ResidencyEvent::load);
  take_events(a);
  enqueue_load(a);
  loading_.push_back(adapter);
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

void DeviceTier::take_events(ServedAdapter& adapter) {
  auto& layers = adapter.device_.layers;
  while (layers.size() < adapter.contents_.layers.size()) {
    if (spare_events_.empty()) spare_events_.push_back(device_->create_event());
    layers.push_back(std::move(spare_events_.back()));
    spare_events_.pop_back();
  }
}

void DeviceTier::step_enqueued(Stream& stream) {
  pool_->step_enqueued();
  stream.record(*steps_[pool_->steps() % steps_.size()]);
}

// Steps before the last two have ended: a load into what has long been free begins at once.
void DeviceTier::wait_for_readers(const ServedAdapter& adapter) {
  const std::uint64_t last =
      std::max(pool_->last_release(adapter.device_.chunks.ids()),
               slot_released_[static_cast<std::size_t>(adapter.device_.slot)]);
  if (last + steps_.size() > pool_->steps()) stream_->wait(*steps_[last % steps_.size()]);
}

void DeviceTier::enqueue_load(ServedAdapter& adapter) {
  ServedAdapter::OnDevice& on_device = adapter.device_;
  wait_for_readers(adapter);
  slots_.write(*stream_, on_device.slot, adapter.contents_, on_device.chunks.ids());
  const std::vector<std::size_t> ends = layer_ends(adapter.contents_);
  on_device.operations = 3 + ends.size();
  std::size_t begin = 0;
  for (std::size_t layer = 0; layer < ends.size(); ++layer) {
    const auto runs = on_device.chunks.runs(begin, ends[layer], memory_->layout().chunk_shift);
    for (const ChunkRun& run : runs) {
      stream_->copy_to_device(memory_->chunk_base() + run.to, on_device.source.get() + run.from,
                              run.bytes);
    }
    stream_->record(*on_device.layers[layer]);
    on_device.operations += runs.size();
    begin = ends[layer];
  }
  operations_ += on_device.operations;
}

void DeviceTier::arrived(ServedAdapter& adapter) {
  end_load(adapter);
  adapter.state_->apply(ResidencyEvent::loaded);
  ++counts_.loads;
  counts_.loaded_bytes += adapter.bytes();
}

void DeviceTier::end_load(ServedAdapter& adapter) {
  ServedAdapter::OnDevice& on_device = adapter.device_;
  for (auto& event : on_device.layers) spare_events_.push_back(std::move(event));
  on_device.layers.clear();
  on_device.source.reset();
  operations_ -= std::exchange(on_device.operations, 0);
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

void DeviceTier::add_pending(const ServedAdapter& adapter,
                             std::vector<LayerEvents>& pending) const {
  const auto& layers = adapter.device_.layers;
  if (layers.empty() || layers.back()->passed()) return;
  const bool known = std::any_of(pending.begin(), pending.end(), [&](const LayerEvents& each) {
    return each.data() == layers.data();
  });
  if (!known) pending.emplace_back(layers);
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
  adapter->state_->apply(ResidencyEvent::evict);
  adapter->device_.chunks.clear();
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
