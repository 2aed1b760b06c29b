#include "engine/adapters/adapter_store.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/file/folder.h"
#include "base/log/log.h"
#include "base/threads/thread_cpus.h"
#include "engine/adapters/adapter_strips.h"
#include "engine/adapters/base_name.h"
#include "engine/loader/adapter_layout.h"
#include "engine/loader/adapter_sum.h"
#include "engine/loader/peft/peft_source.h"
#include "shm/region.h"

namespace tandem {
namespace {

// Copies in flight release their bytes within the time of a load; a longer wait is not worth it.
constexpr auto kHeldTimeout = std::chrono::seconds(10);

// Takes bytes as soon as there is room; ends at once when the store is stopped. `turn`, if any, is
// locked for each attempt, unlocked during waits, and kept locked on return.
Result<AdapterBytes> take_when_free(HostTier& host, std::size_t bytes,
                                    std::unique_lock<std::mutex>* turn = nullptr) {
  const auto deadline = std::chrono::steady_clock::now() + kHeldTimeout;
  while (true) {
    const std::uint64_t counted = host.room().count();
    if (turn != nullptr) turn->lock();
    bool retry = false;
    Result<AdapterBytes> taken = host.take(bytes, &retry);
    if (taken || !retry) return taken;
    if (turn != nullptr) turn->unlock();
    if (!host.room().wait(counted, deadline)) return taken;
  }
}

Result<std::string> read_beside_weights(const std::string& folder, const std::string& file,
                                        const LinkRule& links) {
  constexpr std::uint64_t kMaxBytes = 64U << 20;
  // Subfolders are refused, as they would be another way out of the folder.
  if (file.find('/') != std::string::npos) {
    return error(StatusCode::not_found, "{}: an adapter's files lie in its folder itself", file);
  }
  TANDEM_ASSIGN(const Folder place, Folder::open(folder));
  TANDEM_ASSIGN(const File opened, place.open_file(file, links));
  return read_text(opened, kMaxBytes);
}

}  // namespace

Result<std::unique_ptr<AdapterStore>> AdapterStore::create(Device& device, const ModelSpec& spec,
                                                           DType dtype,
                                                           const AdapterStoreOptions& options) {
  for (const std::string& name : remove_stale_shm_regions()) {
    log::info("removed the shared memory {} of an engine that is gone", name);
  }
  std::unique_ptr<AdapterStore> store(new AdapterStore());
  store->spec_ = spec;
  store->dtype_ = dtype;
  store->options_ = options;
  if (options.tokenizer != nullptr) {
    store->tokenizers_ = std::make_unique<AdapterTokenizers>(*options.tokenizer);
  }
  TANDEM_ASSIGN(store->host_,
                HostTier::create(device, options.host_tier_bytes, options.host_tier_nodes));
  // A GPU computes all adapters of a step without tensor cores if one has a higher rank, and any
  // request may ask for a set.
  constexpr std::int32_t kMostOnGpu = 512;
  const std::int32_t most =
      device.info().is_cuda ? std::min(options.max_rank, kMostOnGpu) : options.max_rank;
  store->sets_ =
      std::make_unique<AdapterSets>(store->spec_, most, options.num_devices, store->host_);
  store->reader_ = std::thread([raw = store.get()] { raw->read_loop(); });
  return store;
}

AdapterStore::~AdapterStore() {
  stop();
}

void AdapterStore::stop() {
  {
    const std::lock_guard lock(reads_mutex_);
    stopping_ = true;
  }
  reads_changed_.notify_one();
  if (host_ != nullptr) host_->room().end();
  if (reader_.joinable()) reader_.join();
}

Status AdapterStore::load(const std::string& name, const std::string& path, bool in_place,
                          bool pinned, const Prepare& prepare, const std::string& digest) {
  std::unique_lock turn(load_mutex_, std::defer_lock);
  Result<Adapter> adapter = load_peft_adapter(
      path, spec_, dtype_,
      [&](std::size_t bytes) { return take_when_free(*host_, with_words(bytes), &turn); },
      options_.now_ns(), options_.links);
  if (!adapter) {
    // The client gets the message, but need not learn where folders are.
    log::info("adapter '{}' cannot be loaded from {}", name, path);
    return adapter.status();
  }
  if (!digest.empty() && adapter->digest != digest) {
    return invalid("its folder holds other weights than it should (digest {}, not {})",
                   adapter->digest, digest);
  }
  TANDEM_ASSIGN(std::shared_ptr<const Tokenizer> tokenizer, read_tokenizer(name, *adapter));
  warn_of_other_base(name, *adapter);
  return publish(name, *std::move(adapter), std::move(tokenizer), true, in_place, pinned, prepare);
}

// A tokenizer that cannot be read matters if the adapter has tokens that the base does not have.
// Otherwise the base's serves.
Result<std::shared_ptr<const Tokenizer>> AdapterStore::read_tokenizer(const std::string& name,
                                                                      const Adapter& adapter) {
  std::shared_ptr<const Tokenizer> tokenizer;
  if (tokenizers_ == nullptr) return tokenizer;
  const Result<std::string> text =
      read_beside_weights(adapter.path, kTokenizerName, options_.links);
  if (!text && text.status().code() == StatusCode::not_found) return tokenizer;
  auto found = text ? tokenizers_->find(*text) : text.status();
  if (!found && adapter.vocab_size > 0) return found.status().with_context(kTokenizerName);
  if (!found) {
    log::warning("adapter '{}': its tokenizer cannot be read, and the base's is used: {}", name,
                 found.status().message());
    return tokenizer;
  }
  TANDEM_TRY(tokenizers_->check(found->get(),
                                std::max(adapter.vocab_size, std::int64_t{spec_.vocab_size})));
  if (*found != nullptr) log::info("adapter '{}' has a tokenizer of its own", name);
  return found;
}

// Only warns, as people rename folders. An adapter that does not fit the base's shape is refused
// elsewhere.
void AdapterStore::warn_of_other_base(const std::string& name, const Adapter& adapter) {
  constexpr std::size_t kMaxNames = 64;
  if (is_base_name(adapter.base_model, options_.base_names)) return;
  {
    const std::lock_guard lock(names_mutex_);
    if (other_bases_.size() >= kMaxNames) return;
    if (!other_bases_.insert(adapter.base_model).second) return;
  }
  log::warning(
      "adapter '{}' was made for the base model '{}', and '{}' is served: if these are not the "
      "same, its answers mean nothing (told once for each base)",
      name, printable(adapter.base_model), options_.base_names.front());
}

// The size with words, so that an adapter that fits now will fit again when it is reread.
std::size_t AdapterStore::with_words(std::size_t num_bytes) const {
  return AdapterReading::bytes_with_words(num_bytes, static_cast<std::size_t>(spec_.num_layers()));
}

Status AdapterStore::add(const std::string& name, Adapter adapter, bool in_place, bool pinned,
                         const Prepare& prepare) {
  std::unique_lock turn(load_mutex_, std::defer_lock);
  TANDEM_ASSIGN(const AdapterBytes bytes, take_when_free(*host_, adapter.num_bytes, &turn));
  std::memcpy(bytes.get(), adapter.bytes.get(), adapter.num_bytes);
  adapter.bytes = bytes;
  return publish(name, std::move(adapter), nullptr, false, in_place, pinned, prepare);
}

Status AdapterStore::check(const std::string& name, const Adapter& adapter) const {
  if (adapter.max_rank > options_.max_rank) {
    return invalid("adapter '{}' has rank {}, this server takes up to {} (max_lora_rank)", name,
                   adapter.max_rank, options_.max_rank);
  }
  if (adapter.vocab_size > spec_.vocab_size + options_.max_added_tokens) {
    return invalid(
        "adapter '{}' has a vocabulary of {}, {} more than the base's; this server takes up to {} "
        "more (max_added_tokens)",
        name, adapter.vocab_size, adapter.vocab_size - spec_.vocab_size, options_.max_added_tokens);
  }
  const std::lock_guard lock(names_mutex_);
  if (!names_.contains(name) && names_.size() >= static_cast<std::size_t>(options_.max_adapters)) {
    return error(StatusCode::resource_exhausted,
                 "all {} adapters that this server takes are loaded; unload one or raise "
                 "max_adapters",
                 options_.max_adapters);
  }
  return {};
}

Status AdapterStore::publish(const std::string& name, Adapter adapter,
                             std::shared_ptr<const Tokenizer> tokenizer, bool reloadable,
                             bool in_place, bool pinned, const Prepare& prepare) {
  TANDEM_TRY(check(name, adapter));
  const AdapterLease holder = find(name);
  const bool same = holder != nullptr && holder->contents().digest == adapter.digest;
  if (same && holder->tokenizer() == tokenizer && holder->pinned() == pinned &&
      !holder->home().is_arriving()) {
    if (reloadable) holder->home().set_folder({adapter.path, adapter.source});
    return {};
  }
  if (holder != nullptr && !same && !in_place) {
    return error(StatusCode::already_exists,
                 "adapter '{}' is loaded with other content; set load_inplace to replace it, or "
                 "unload it first",
                 name);
  }
  Adapter part = device_layout(adapter, spec_, options_.num_devices);
  const auto served = std::make_shared<ServedAdapter>(
      name, std::move(adapter), std::move(part), pinned, reloadable, host_, std::move(tokenizer));
  if (prepare) {
    if (Status prepared = prepare(served); !prepared) {
      served->retire();
      tell();
      return prepared;
    }
  }
  {
    const std::lock_guard lock(names_mutex_);
    names_[name] = served;
  }
  if (holder != nullptr) {
    holder->retire();
    sets_->forget_retired();
    tell();
  }
  return {};
}

Status AdapterStore::unload(const std::string& name) {
  AdapterLease last;  // released outside the lock, as it may be the last owner
  {
    const std::lock_guard lock(names_mutex_);
    const auto it = names_.find(name);
    if (it == names_.end()) {
      return error(StatusCode::not_found, "adapter '{}' is not loaded", name);
    }
    last = std::move(it->second);
    names_.erase(it);
  }
  last->retire();
  sets_->forget_retired();
  last.reset();
  tell();
  return {};
}

bool AdapterStore::show(const AdapterLease& adapter) {
  // An adapter that is being loaded may be about to take the name, or the last free place.
  const std::unique_lock turn(load_mutex_, std::try_to_lock);
  if (!turn.owns_lock() || adapter->retired()) return false;
  const std::lock_guard lock(names_mutex_);
  const auto holder = names_.find(adapter->name());
  if (holder != names_.end()) return holder->second == adapter;
  if (names_.size() >= static_cast<std::size_t>(options_.max_adapters)) return false;
  names_.emplace(adapter->name(), adapter);
  return true;
}

void AdapterStore::hide(const AdapterLease& adapter) {
  const std::lock_guard lock(names_mutex_);
  const auto it = names_.find(adapter->name());
  if (it != names_.end() && it->second == adapter) names_.erase(it);
}

// Skips 0, which words hold before any reading.
std::uint32_t AdapterStore::next_generation() {
  const std::uint32_t next = generation_.fetch_add(1, std::memory_order_relaxed) + 1;
  return next != 0 ? next : next_generation();
}

AdapterLease AdapterStore::find(const std::string& name) const {
  const std::lock_guard lock(names_mutex_);
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : it->second;
}

Result<AdapterLease> AdapterStore::find_sum(std::span<const AdapterPart> parts) {
  if (parts.empty() || parts.size() > kMostAdapterParts) {
    return invalid("a request takes 1 to {} adapters, not {}", kMostAdapterParts, parts.size());
  }
  std::vector<ScaledAdapter> adapters;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [name, scale] = parts[i];
    if (!std::isfinite(scale)) return invalid("the scale of adapter '{}' is not finite", name);
    if (std::ranges::find(parts.first(i), name, &AdapterPart::name) != parts.first(i).end()) {
      return invalid("adapter '{}' is given twice", name);
    }
    AdapterLease adapter = find(name);
    if (adapter == nullptr) {
      return error(StatusCode::not_found, "adapter '{}' is not loaded", name);
    }
    if (scale != 0) adapters.push_back({std::move(adapter), scale});
  }
  if (adapters.empty()) return AdapterLease();
  if (adapters.size() == 1 && adapters.front().scale == 1) return adapters.front().adapter;
  sets_->forget_retired();  // an adapter that failed to arrive
  bool changed = false;
  Result<AdapterLease> sum = sets_->find(std::move(adapters), &changed);
  if (changed) tell();
  return sum;
}

std::vector<AdapterLease> AdapterStore::list() const {
  const std::lock_guard lock(names_mutex_);
  std::vector<AdapterLease> result;
  for (const auto& [name, lease] : names_) result.push_back(lease);
  return result;
}

AdapterFolder AdapterStore::folder_of(const std::string& name) const {
  const AdapterLease lease = find(name);
  if (lease == nullptr || lease->path().empty()) return {};  // an empty path: made in memory
  return {std::weak_ptr<const void>(lease),
          [path = lease->path(), links = options_.links](const std::string& file) {
            return read_beside_weights(path, file, links);
          }};
}

// The files must be those that were read. If they are not known (they were new when read, or are on
// another machine), the receiver checks the digest.
Result<AdapterFile> AdapterStore::open_file(const std::string& digest,
                                            std::string_view file) const {
  const bool is_config = file == kPeftConfigName;
  if (!is_config && file != kPeftWeightsName) {
    return error(StatusCode::not_found, "an adapter's files are {} and {}", kPeftConfigName,
                 kPeftWeightsName);
  }
  Status status = error(StatusCode::not_found, "no adapter here has the digest {}", digest);
  for (const AdapterLease& lease : list()) {
    if (lease->contents().digest != digest) continue;
    const AdapterHome::Folder folder = lease->home().folder();
    if (folder.path.empty()) continue;  // made in memory
    if (lease->tokenizer() != nullptr) {
      status = error(StatusCode::not_found,
                     "the adapter with the digest {} has a tokenizer of its own, which is not sent",
                     digest);
      continue;
    }
    Result<Folder> place = Folder::open(folder.path);
    if (!place) {
      status = place.status();
      continue;
    }
    Result<File> opened =
        place->open_file(is_config ? kPeftConfigName : kPeftWeightsName, options_.links);
    status = opened.status();
    if (!opened) continue;
    TANDEM_ASSIGN(const FileIdentity now, opened->identity());
    const FileIdentity* const before =
        folder.source == nullptr ? &now
                                 : (is_config ? &folder.source->config : &folder.source->weights);
    if (now == *before) return AdapterFile{*std::move(opened), now};
    status = error(StatusCode::not_found,
                   "the files of the adapter with the digest {} have changed since they were read",
                   digest);
  }
  return status;
}

// Reading again.

void AdapterStore::request_read(const AdapterLease& adapter) {
  if (!adapter->home().begin_reading()) return;
  {
    const std::lock_guard lock(reads_mutex_);
    reads_.push_back(adapter);
    host_->cores().expect(static_cast<std::int64_t>(adapter->bytes()));
  }
  reads_changed_.notify_one();
}

void AdapterStore::read_loop() {
  pthread_setname_np(pthread_self(), "adapter disk");
  const std::span<const int> cpus = options_.readers.cpus;
  const bool anywhere = cpus.empty();
  ThreadTeam team = anywhere
                        ? ThreadTeam(ThreadTeam::helpers_for_machine())
                        : ThreadTeam(static_cast<int>(cpus.size()) - 1, "loader", cpus.subspan(1));
  if (!anywhere) {
    // After the others have started, as a thread that cannot be pinned runs where it was started.
    pin_this_thread(cpus.first(1), "the thread that reads adapters");
    team.leave_when([this](std::size_t thread) {
      return thread >= options_.readers.apart && host_->cores().are_computing();
    });
  }
  team_ = &team;
  std::unique_lock lock(reads_mutex_);
  while (true) {
    reads_changed_.wait(lock, [this] { return stopping_ || !reads_.empty(); });
    if (stopping_) return;
    AdapterLease adapter = std::move(reads_.front());
    reads_.pop_front();
    lock.unlock();
    read_and_tell(*adapter);
    host_->cores().expect(-static_cast<std::int64_t>(adapter->bytes()));
    adapter.reset();
    tell();
    lock.lock();
  }
}

// Ends the reading in any case, as requests wait for it.
void AdapterStore::read_and_tell(ServedAdapter& adapter) noexcept {
  Status read;
  if (options_.cold_starts != nullptr) options_.cold_starts->read_begins(adapter);
  try {
    read = read_again(adapter);
    if (!read) {
      log::warning("adapter '{}' cannot be read again from {}: {}", adapter.name(), adapter.path(),
                   read.message());
    }
  } catch (const std::exception&) {
    read = {StatusCode::unavailable, "out of memory"};
  }
  if (options_.cold_starts != nullptr) options_.cold_starts->read_ended(adapter, read.ok());
  adapter.home().end_reading(std::move(read));
}

// Others see the adapter before all of it is present, but only when the rest is near: a load that
// waits for a slow disk would delay all loads behind it.
Status AdapterStore::read_again(ServedAdapter& adapter) {
  const Adapter& known = adapter.contents();
  TANDEM_ASSIGN(const AdapterBytes bytes, take_when_free(*host_, with_words(known.num_bytes)));
  const auto reading = std::make_shared<AdapterReading>(known, bytes.get(), next_generation());
  std::atomic<bool> shown{false};  // relaxed: it publishes nothing
  const auto layer_there = [&](std::size_t layer) {
    reading->layer_there(layer);
    if (reading->rest() > AdapterReading::kNear ||
        shown.exchange(true, std::memory_order_relaxed)) {
      return;
    }
    reading->show();
    adapter.home().put(bytes, reading);
    tell();
  };
  TANDEM_TRY(adapter.set().empty() ? read_folder(adapter, bytes.get(), layer_there)
                                   : read_sum(adapter, bytes.get(), layer_there));
  if (!shown.load(std::memory_order_relaxed)) adapter.home().put(bytes);
  return {};
}

Status AdapterStore::read_folder(ServedAdapter& adapter, std::byte* target,
                                 const LayerThere& layer_there) {
  const AdapterHome::Folder folder = adapter.home().folder();
  const Result<RereadOutcome> read =
      reread_peft_adapter(folder.path, spec_, adapter.contents(), folder.source, *team_, target,
                          layer_there, options_.now_ns(), options_.links);
  TANDEM_TRY(explain(adapter, read));
  // relaxed: it counts, and publishes nothing
  if (read->hashed) hashed_reads_.fetch_add(1, std::memory_order_relaxed);
  if (read->source != folder.source) adapter.home().set_source({folder.path, read->source});
  return {};
}

Status AdapterStore::read_sum(const ServedAdapter& sum, std::byte* target,
                              const LayerThere& layer_there) {
  std::vector<AdapterBytes> held;  // the host tier keeps them meanwhile
  std::vector<const std::byte*> bytes;
  for (const ScaledAdapter& each : sum.set()) {
    TANDEM_ASSIGN(held.emplace_back(), bytes_of(*each.adapter));
    bytes.push_back(held.back().get());
  }
  const std::vector<SummedAdapter> parts = parts_of_set(sum.set());
  team_->run(sum.contents().layers.size(), [&](std::size_t layer, std::size_t) {
    const std::span<const AdapterMatrix> matrices = sum.contents().layers[layer];
    if (std::ranges::none_of(matrices, [](const auto& matrix) { return matrix.rank > 0; })) return;
    sum_layer(spec_, sum.contents(), parts, bytes, layer, target);
    layer_there(layer);
  });
  return {};
}

// Those in the host tier; else the folder is read into other memory, as room in the tier may have
// to be waited for while other parts of a sum are held there.
Result<AdapterBytes> AdapterStore::bytes_of(ServedAdapter& adapter) {
  AdapterHome::Copy copy = adapter.home().copy();
  if (copy.bytes != nullptr) {
    if (copy.reading != nullptr) TANDEM_TRY(copy.reading->wait());
    return std::move(copy.bytes);
  }
  Adapter memory;
  memory.num_bytes = adapter.contents().num_bytes;
  TANDEM_TRY(allocate_bytes(memory));
  TANDEM_TRY(read_folder(adapter, memory.bytes.get(), [](std::size_t) {}));
  return std::move(memory.bytes);
}

Status AdapterStore::explain(const ServedAdapter& adapter, const Result<RereadOutcome>& read) {
  if (!read) {
    if (read.status().code() == StatusCode::resource_exhausted) return read.status();
    return error(StatusCode::unavailable,
                 "adapter '{}' is no longer in memory, and its folder cannot be read ({}); load it "
                 "again with load_inplace",
                 adapter.name(), read.status().message());
  }
  if (read->same) return {};
  return error(StatusCode::unavailable,
               "adapter '{}' is no longer in memory, and its folder's content has changed since it "
               "was loaded; load it again with load_inplace",
               adapter.name());
}

}  // namespace tandem
