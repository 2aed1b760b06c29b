#include "engine/adapters/adapter_store.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "engine/adapters/adapter_slots.h"
#include "engine/base/check.h"

namespace tandem {

ResidentAdapter::~ResidentAdapter() {
  if (slot_ >= 0) slots_->give_back(slot_);
}

AdapterStore::~AdapterStore() = default;

Result<std::unique_ptr<AdapterStore>> AdapterStore::create(Device& device,
                                                           const ModelConfig& config, DType dtype,
                                                           std::int32_t max_adapters,
                                                           std::int32_t max_rank) {
  std::unique_ptr<AdapterStore> store(new AdapterStore());
  store->device_ = &device;
  store->config_ = config;
  store->dtype_ = dtype;
  store->max_rank_ = max_rank;
  TANDEM_ASSIGN(store->slots_,
                AdapterSlots::create(device, max_adapters, config.num_layers * kNumModules));
  TANDEM_ASSIGN(store->load_stream_, device.create_stream("adapter load"));
  return store;
}

Status AdapterStore::load(const std::string& name, const std::string& path, bool in_place,
                          bool pinned) {
  TANDEM_ASSIGN(Adapter adapter, load_peft_adapter(path, config_, dtype_));
  return add(name, std::move(adapter), in_place, pinned);
}

Status AdapterStore::add(const std::string& name, Adapter adapter, bool in_place, bool pinned) {
  if (adapter.max_rank > max_rank_) {
    return invalid("adapter '{}' has rank {}, this server takes up to {} (max_lora_rank)", name,
                   adapter.max_rank, max_rank_);
  }
  const std::lock_guard load_lock(load_mutex_);
  bool already_there = false;
  TANDEM_TRY(check_name_free(name, adapter.digest, in_place, already_there));
  if (already_there) return {};
  TANDEM_ASSIGN(AdapterLease resident, make_resident(name, std::move(adapter), pinned));
  AdapterLease predecessor;  // let go outside the lock: it may be the last owner
  {
    const std::lock_guard lock(names_mutex_);
    predecessor = std::exchange(names_[name], std::move(resident));
  }
  return {};
}

Status AdapterStore::check_name_free(const std::string& name, const std::string& digest,
                                     bool in_place, bool& already_there) const {
  const AdapterLease holder = find(name);
  if (holder == nullptr) return {};
  already_there = holder->contents().digest == digest;
  if (already_there || in_place) return {};
  return error(StatusCode::already_exists,
               "adapter '{}' is loaded with other content; set load_inplace to replace it, or "
               "unload it first",
               name);
}

Result<std::shared_ptr<ResidentAdapter>> AdapterStore::make_resident(const std::string& name,
                                                                     Adapter adapter, bool pinned) {
  const std::optional<std::int32_t> slot = slots_->take();
  if (!slot) {
    return error(StatusCode::resource_exhausted,
                 "all {} adapter slots are in use; unload an adapter or raise max_adapters",
                 slots_->num_slots());
  }
  std::shared_ptr<ResidentAdapter> resident(new ResidentAdapter());
  resident->slots_ = slots_;
  resident->slot_ = *slot;  // from here on the destructor returns it
  resident->name_ = name;
  resident->pinned_ = pinned;
  resident->loaded_unix_ = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  TANDEM_ASSIGN(resident->buffer_, device_->allocate(adapter.num_bytes, "adapter '" + name + "'"));

  const std::size_t num_matrices = adapter.layers.size() * kNumModules;
  TANDEM_ASSIGN(const Buffer row, device_->allocate_pinned(num_matrices * sizeof(LoraMatrix),
                                                           "an adapter's table row"));
  auto* matrices = reinterpret_cast<LoraMatrix*>(row.data());
  for (std::size_t i = 0; i < num_matrices; ++i) {
    const AdapterMatrix& from = adapter.layers[i / kNumModules][i % kNumModules];
    matrices[i] = {};
    if (from.rank == 0) continue;
    matrices[i].a = reinterpret_cast<std::uint64_t>(resident->buffer_.data() + from.a_offset);
    matrices[i].b = reinterpret_cast<std::uint64_t>(resident->buffer_.data() + from.b_offset);
    matrices[i].rank = from.rank;
    matrices[i].b_stride = from.b_stride;
  }
  load_stream_->copy_to_device(resident->buffer_.data(), adapter.bytes.get(), adapter.num_bytes);
  load_stream_->copy_to_device(slots_->row(*slot), matrices, num_matrices * sizeof(LoraMatrix));
  TANDEM_TRY(load_stream_->synchronize());
  adapter.bytes.reset();
  resident->contents_ = std::move(adapter);
  return resident;
}

Status AdapterStore::unload(const std::string& name) {
  AdapterLease last;
  const std::lock_guard lock(names_mutex_);
  const auto it = names_.find(name);
  if (it == names_.end()) {
    return error(StatusCode::not_found, "adapter '{}' is not loaded", name);
  }
  last = std::move(it->second);
  names_.erase(it);
  return {};
}

AdapterLease AdapterStore::find(const std::string& name) const {
  const std::lock_guard lock(names_mutex_);
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : it->second;
}

std::vector<AdapterLease> AdapterStore::list() const {
  const std::lock_guard lock(names_mutex_);
  std::vector<AdapterLease> result;
  for (const auto& [name, lease] : names_) result.push_back(lease);
  return result;
}

AdapterTable AdapterStore::table() const {
  return {slots_->num_slots() > 0 ? slots_->row(0) : nullptr, max_rank_};
}

}  // namespace tandem
