#include "engine/registry/registry_adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <random>
#include <system_error>
#include <utility>

#include "base/file/folder.h"
#include "base/http/client/http_address.h"
#include "base/log/log.h"
#include "base/status_copy.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLongestWait{30};
constexpr std::chrono::seconds kLookAgain{3};
constexpr std::chrono::seconds kLongestUnload{1};
constexpr std::chrono::milliseconds kUnloadLook{2};
// Requests wait on threads that parse and answer others. Folders take milliseconds, other engines
// may take a minute: more than these come again, or go elsewhere.
constexpr int kMostWaitingForPeers = 2;
// A file's header, and what people write into it, beside the weights.
constexpr std::uint64_t kHeaderBytes = 8 << 20;

Status ends_now() {
  return error(StatusCode::unavailable, "this server is shutting down");
}

// The weights' file may be in a wider type than what is served of it.
std::uint64_t most_file_bytes(const AdapterEntry& entry, DType dtype) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;  // no product of it overflows
  return std::min(entry.bytes, kMost) / size_of(dtype) * size_of(DType::f32) + kHeaderBytes;
}

// In random order, so that not all ask the same one; those that serve this model's name first.
std::vector<HttpAddress> addresses_of(std::vector<EngineEntry> engines, const std::string& model) {
  std::shuffle(engines.begin(), engines.end(), std::mt19937_64(std::random_device{}()));
  std::stable_partition(engines.begin(), engines.end(),
                        [&](const EngineEntry& each) { return each.model == model; });
  std::vector<HttpAddress> addresses;
  for (const EngineEntry& each : engines) {
    Result<HttpAddress> address = HttpAddress::parse(each.address);
    if (address) addresses.push_back(*std::move(address));
  }
  return addresses;
}

}  // namespace

RegistryAdapters::RegistryAdapters(Engine& engine, RegistryAdaptersOptions options)
    : engine_(engine), dtype_(options.dtype), store_(std::move(options.store)) {
  for (const std::string& root : options.roots) {
    std::error_code failure;
    fs::path real = fs::canonical(root, failure);
    if (!failure) roots_.push_back(std::move(real));
  }
  if (store_ != nullptr) {
    options.peers.make_room = [this] { return unload_idle(); };
    fetcher_ = std::make_unique<PeerFetcher>(*store_, std::move(options.peers));
  }
  folders_.start(1);
  peers_.start(1);
}

RegistryAdapters::~RegistryAdapters() {
  end_fetches();
  if (member_ != nullptr) member_->stop();  // what the lanes run asks it to the end
  folders_.stop();
  peers_.stop();
}

void RegistryAdapters::end_fetches() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (fetcher_ != nullptr) fetcher_->stop();
}

Result<std::unique_ptr<RegistryAdapters>> RegistryAdapters::join(const std::string& url,
                                                                 const EngineEntry& entry,
                                                                 Engine& engine,
                                                                 RegistryAdaptersOptions options) {
  TANDEM_ASSIGN(auto registry, open_registry(url));
  std::unique_ptr<RegistryAdapters> adapters(new RegistryAdapters(engine, std::move(options)));
  auto* const raw = adapters.get();
  {
    // The member's thread may call follow() before this has it.
    const std::lock_guard lock(raw->mutex_);
    TANDEM_ASSIGN(raw->member_,
                  RegistryMember::join(std::move(registry), entry, [raw] { raw->follow(); }));
  }
  return adapters;
}

Status RegistryAdapters::fetch(const std::string& name) {
  if (!member_->has_read()) {
    return error(StatusCode::unavailable,
                 "the registry has not answered since this server started, so its adapters are not "
                 "known yet");
  }
  if (!member_->find_adapter(name)) {
    return error(StatusCode::not_found, "the registry has no adapter '{}'", name);
  }
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
  std::unique_lock lock(mutex_);
  const JobPtr job = ask(name);
  bool is_counted = false;
  bool is_late = false;
  while (!job->is_done && !job->is_shown && !is_late && !ending_) {
    if (job->at_peers && !is_counted) {
      if (waiting_for_peers_ == kMostWaitingForPeers) break;
      is_counted = true;
      ++waiting_for_peers_;
    }
    is_late = changed_.wait_until(lock, deadline) == std::cv_status::timeout;
  }
  if (is_counted) --waiting_for_peers_;
  if (job->is_done) return job->status;
  if (job->is_shown) return {};
  if (ending_) return ends_now();
  return error(StatusCode::unavailable, "adapter '{}' is on its way here{}; try again", name,
               job->at_peers ? " from another engine" : "");
}

std::vector<AdapterEntry> RegistryAdapters::listed() const {
  std::vector<AdapterEntry> entries = member_->newest_adapters();
  std::erase_if(entries, [&](const AdapterEntry& entry) { return !can_bring(entry); });
  return entries;
}

// Checks what can be checked without reading the adapter.
bool RegistryAdapters::can_bring(const AdapterEntry& entry) const {
  return check_fits(entry).ok() && (store_ != nullptr || allowed_folder(entry).ok());
}

std::optional<AdapterEntry> RegistryAdapters::find(const std::string& name) const {
  std::optional<AdapterEntry> entry = member_->find_adapter(name);
  if (entry && !can_bring(*entry)) entry.reset();
  return entry;
}

RegistryAdapters::JobPtr RegistryAdapters::ask(const std::string& name) {
  if (const auto found = jobs_.find(name); found != jobs_.end()) return found->second;
  auto job = std::make_shared<Job>();
  job->name = name;
  if (folders_.run([this, job] { bring_in(job); })) {
    jobs_[name] = job;
  } else {
    job->is_done = true;
    job->status = ends_now();
  }
  return job;
}

void RegistryAdapters::look_again() noexcept {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < kLookAgain) return;
  looked_ = now;
  try {
    {
      const std::lock_guard lock(mutex_);
      for (auto& [name, fetched] : fetched_) note_use(name, fetched);
    }
    follow();
  } catch (const std::exception&) {  // no memory
  }
}

bool RegistryAdapters::note_use(const std::string& name, Fetched& fetched) const {
  const AdapterLease adapter = engine_.adapter_store().find(name);
  if (adapter == nullptr) return false;
  // relaxed: they are counts, and guard nothing
  const std::uint64_t uses = adapter->hits.load(std::memory_order_relaxed) +
                             adapter->cold_starts.load(std::memory_order_relaxed);
  const bool is_active = adapter->running.load(std::memory_order_relaxed) > 0 ||
                         adapter->waiting.load(std::memory_order_relaxed) > 0;
  if (is_active || uses != fetched.uses) fetched.last_use = std::chrono::steady_clock::now();
  fetched.uses = uses;
  return is_active;
}

// Its name is fetched again when a request names it. The engine's thread lets go of it soon, but
// not at once.
bool RegistryAdapters::unload_idle() {
  std::unique_lock lock(mutex_);
  auto victim = fetched_.end();
  for (auto each = fetched_.begin(); each != fetched_.end(); ++each) {
    if (note_use(each->first, each->second) || !each->second.in_store) continue;
    if (victim == fetched_.end() || each->second.last_use < victim->second.last_use) victim = each;
  }
  if (victim == fetched_.end()) return false;
  const std::string name = victim->first;
  fetched_.erase(victim);
  const std::weak_ptr<const ServedAdapter> adapter = engine_.adapter_store().find(name);
  if (!engine_.unload_adapter(name)) return true;  // somebody has, who did not ask us
  log::info("adapter '{}' unloaded, to make room in the adapter store", name);
  const auto deadline = std::chrono::steady_clock::now() + kLongestUnload;
  while (!adapter.expired() && !ending_ && std::chrono::steady_clock::now() < deadline) {
    changed_.wait_for(lock, kUnloadLook);
  }
  return adapter.expired();
}

void RegistryAdapters::follow() {
  std::vector<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, fetched] : fetched_) names.push_back(name);
  }
  for (const std::string& name : names) follow(name);
}

void RegistryAdapters::follow(const std::string& name) {
  const std::optional<AdapterEntry> entry = member_->find_adapter(name);
  {
    const std::lock_guard lock(mutex_);
    const auto found = fetched_.find(name);
    if (found == fetched_.end()) return;
    if (entry) {
      if (entry->digest == found->second.digest) return;
      if (back_off_.refusal(entry->digest, std::chrono::steady_clock::now())) ask(name);
      return;
    }
    fetched_.erase(found);
  }
  const Status unloaded = engine_.unload_adapter(name);
  if (unloaded) log::info("adapter '{}' unloaded: it is no longer in the registry", name);
}

bool RegistryAdapters::is_served(const AdapterEntry& entry) {
  if (!engine_.has_adapter(entry.name)) return false;
  const std::lock_guard lock(mutex_);
  const auto found = fetched_.find(entry.name);
  // One that somebody has loaded by this name himself is not ours to replace.
  return found == fetched_.end() || found->second.digest == entry.digest;
}

void RegistryAdapters::bring_in(const JobPtr& job) {
  Status status;
  try {
    const std::optional<AdapterEntry> entry = member_->find_adapter(job->name);
    if (!entry) {
      return end(job, error(StatusCode::not_found, "the registry has no adapter '{}'", job->name));
    }
    job->entry = *entry;
    if (is_served(*entry)) return end(job, {});
    if (const Status fits = check_fits(*entry); !fits) return end(job, fits);
    status = load_from_store(*entry);
    if (status || !blames_folder(status)) return end(job, status);
    const Result<fs::path> folder = allowed_folder(*entry);
    status = folder ? load(*entry, *folder) : folder.status();
    if (status || !blames_folder(status) || fetcher_ == nullptr) {
      return end(job, status);
    }
    if (const Status held = held_off(entry->digest); !held) return end(job, held);
    const bool runs = peers_.run([this, job, status] { bring_from_peers(job, status); });
    if (!runs) return end(job, status);
  } catch (const std::exception& failure) {  // no memory
    return end(job, {StatusCode::unavailable, failure.what()});
  }
  {
    const std::lock_guard lock(mutex_);
    job->at_peers = true;
  }
  changed_.notify_all();
}

void RegistryAdapters::bring_from_peers(const JobPtr& job, const Status& before) {
  Status status;
  try {
    bool has_come = false;
    const std::unique_ptr<AdapterArrival> arrival = expect(job);
    status = fetch_from_peers(job->entry, arrival.get(), has_come);
    if (!status) {
      status = error(status.code(), "{}; fetching it from other engines failed, too: {}",
                     before.message(), status.message());
    }
    if (!status && arrival != nullptr) arrival->fail(status);
    if (!status && has_come) {
      const std::lock_guard lock(mutex_);
      back_off_.failed(job->entry.digest, status, std::chrono::steady_clock::now());
    }
  } catch (const std::exception& failure) {  // no memory
    status = {StatusCode::unavailable, failure.what()};
  }
  end(job, status);
}

std::unique_ptr<AdapterArrival> RegistryAdapters::expect(const JobPtr& job) {
  if (keeps_all(engine_.options().adapter_mode)) return nullptr;
  return std::make_unique<AdapterArrival>(engine_.adapter_store(), job->name, job->entry.digest,
                                          job->entry.bytes, [this, job](bool is_shown) {
                                            {
                                              const std::lock_guard lock(mutex_);
                                              job->is_shown = is_shown;
                                            }
                                            changed_.notify_all();
                                          });
}

Status RegistryAdapters::held_off(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  return back_off_.refusal(digest, std::chrono::steady_clock::now());
}

Status RegistryAdapters::fetch_from_peers(const AdapterEntry& entry, AdapterArrival* arrival,
                                          bool& has_come) {
  // One of another name with these contents may have come since it was looked for.
  Status there = load_from_store(entry);
  if (there || !blames_folder(there)) return there;
  TANDEM_ASSIGN(const DType dtype, parse_dtype(entry.dtype));
  const auto peers = addresses_of(member_->other_engines(), member_->engine().model);
  const auto use = [&](const LocalStore::Kept& kept) {
    has_come = true;
    return load(entry, kept.folder, arrival);
  };
  PeerFetcher::Arrive arrive;
  if (arrival != nullptr) {
    arrive = [&](const fs::path& folder, std::shared_ptr<const FileProgress> writing) {
      Status read = arrival->read(folder, std::move(writing));
      has_come = has_come || blames_folder(read);
      return read;
    };
  }
  return fetcher_->fetch({entry.digest, most_file_bytes(entry, dtype)}, peers, use, arrive);
}

// Whatever happens a job has an end: requests wait for it, and later ones for the next. The
// registry may have changed meanwhile: what counts is its newest word.
void RegistryAdapters::end(const JobPtr& job, const Status& status) noexcept {
  {
    const std::lock_guard lock(mutex_);
    job->is_done = true;
    job->status = copy_of(status);
    jobs_.erase(job->name);
  }
  changed_.notify_all();
  try {
    tell_refusal(*job, status);
    const std::optional<AdapterEntry> now = member_->find_adapter(job->name);
    if (!now || now->digest != job->entry.digest) follow(job->name);
  } catch (const std::exception&) {  // no memory: look_again() finds a newer version
  }
}

// Once for each version.
void RegistryAdapters::tell_refusal(const Job& job, const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (status) refused_.erase(job.name);
    if (status || status.code() == StatusCode::not_found) return;
    std::string& refused = refused_[job.name];
    if (std::exchange(refused, job.entry.digest) == job.entry.digest) return;
  }
  log::warning("adapter '{}' version {} of the registry: {}", job.name, job.entry.version,
               status.message());
}

Status RegistryAdapters::check_fits(const AdapterEntry& entry) const {
  const Result<DType> dtype = parse_dtype(entry.dtype);
  if (!dtype || *dtype != dtype_) {
    return invalid(
        "its digest is of weights in {}, and this engine computes in {}; `tandem adapters add` "
        "with --dtype {} enters it for engines like this",
        entry.dtype, to_string(dtype_), to_string(dtype_));
  }
  if (entry.rank > engine_.options().max_lora_rank) {
    return invalid("adapter '{}' has rank {}, this server takes up to {} (max_lora_rank)",
                   entry.name, entry.rank, engine_.options().max_lora_rank);
  }
  return engine_.adapter_store().host_tier().check_size(entry.bytes);
}

Status RegistryAdapters::load_from_store(const AdapterEntry& entry) {
  const auto kept = store_ == nullptr ? std::nullopt : store_->find(entry.digest);
  if (!kept) return error(StatusCode::not_found, "it is not in the local store");
  Status loaded = load(entry, kept->folder);
  if (loaded || !blames_folder(loaded)) return loaded;
  log::warning("adapter store: {} is removed: {}", entry.digest, loaded.message());
  store_->drop(entry.digest);
  return loaded;
}

Status RegistryAdapters::load(const AdapterEntry& entry, const fs::path& folder,
                              AdapterArrival* arrival) {
  std::string lead;
  if (arrival == nullptr || !arrival->is_served()) {
    TANDEM_TRY(engine_.load_proven_adapter(entry.name, folder.string(), entry.digest));
  } else if (arrival->lead().count() > 0) {
    lead =
        fmt::format(", usable {:.1f} ms before its last byte came", arrival->lead().count() * 1e3);
  }
  Fetched fetched;
  fetched.digest = entry.digest;
  if (store_ != nullptr) {
    fetched.in_store = store_->used_by(entry.digest, engine_.adapter_store().find(entry.name));
  }
  if (arrival != nullptr) {
    // Requests that began before it was unloaded, or replaced, may read the folder again.
    const std::weak_ptr<const ServedAdapter> reader = arrival->settle(folder.string());
    if (store_ != nullptr) store_->used_by(entry.digest, reader);
  }
  {
    const std::lock_guard lock(mutex_);
    fetched_[entry.name] = fetched;
    back_off_.succeeded(entry.digest);
  }
  log::info("adapter '{}' version {} of the registry loaded from {}{}", entry.name, entry.version,
            folder.string(), lead);
  return {};
}

// The registry's writers name any folder; what may be read is this server's to say. The path that
// this gives is opened without following any link (Folder::open).
Result<fs::path> RegistryAdapters::allowed_folder(const AdapterEntry& entry) const {
  std::error_code failure;
  fs::path real = fs::weakly_canonical(entry.source, failure);
  const bool allowed = !failure && std::ranges::any_of(roots_, [&](const fs::path& root) {
    return lies_under(real, root);
  });
  if (allowed) return real;
  return error(StatusCode::permission_denied,
               "its folder in the registry is not under an adapter_root of this server");
}

}  // namespace tandem
