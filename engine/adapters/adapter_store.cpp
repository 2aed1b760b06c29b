#include "engine/adapters/adapter_store.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log/log.h"
#include "engine/adapters/adapter_strips.h"
#include "engine/adapters/base_name.h"
#include "engine/loader/end_token.h"
#include "engine/loader/peft/peft_source.h"
#include "shm/region.h"

namespace tandem {
namespace {

// Subfolders are refused, as they would be another way out of the folder.
Result<std::string> read_beside_weights(const Folder& folder, const std::string& file,
                                        const LinkRule& links) {
  if (file.find('/') != std::string::npos) {
    return error(StatusCode::not_found, "{}: an adapter's files lie in its folder itself", file);
  }
  TANDEM_ASSIGN(const File opened, folder.open_file(file, links));
  return read_text(opened, kMaxBesideBytes);
}

Result<std::string> read_beside_weights(const std::string& folder, const std::string& file,
                                        const LinkRule& links) {
  TANDEM_ASSIGN(const Folder place, Folder::open(folder));
  return read_beside_weights(place, file, links);
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
  store->reader_ = std::make_unique<AdapterReader>(
      store->spec_, store->host_,
      AdapterReaderOptions{options.now_ns, options.links, options.cold_starts, options.readers},
      [raw = store.get()] { raw->tell(); });
  return store;
}

AdapterStore::~AdapterStore() {
  stop();
}

void AdapterStore::stop() {
  if (host_ != nullptr) host_->room().end();
  if (reader_ != nullptr) reader_->stop();
}

Status AdapterStore::load(const std::string& name, const std::string& path, bool in_place,
                          bool pinned, const Prepare& prepare, const std::string& digest) {
  std::unique_lock turn(load_mutex_, std::defer_lock);
  Result<Adapter> adapter = load_peft_adapter(
      path, spec_, dtype_,
      [&](std::size_t bytes) { return host_->take_when_free(with_words(bytes), &turn); },
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
  adapter->end_tokens = read_end_tokens(*adapter, tokenizer.get());
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

// The end token that the adapter's folder names, unless the base's texts end with it, too.
std::vector<TokenId> AdapterStore::read_end_tokens(const Adapter& adapter,
                                                   const Tokenizer* own) const {
  if (options_.tokenizer == nullptr) return {};
  const std::string whose =
      fmt::format("adapter '{}'", std::filesystem::path(adapter.path).filename().string());
  const std::optional<std::string> name = read_end_token(whose, [&](const std::string& file) {
    return read_beside_weights(adapter.path, file, options_.links);
  });
  if (!name) return {};
  const auto id = (own == nullptr ? *options_.tokenizer : *own).token_to_id(*name);
  if (!id) {
    log::warning("{}: its end token '{}' is no token of its tokenizer and is ignored", whose,
                 *name);
  }
  const std::int64_t tokens = std::max(adapter.vocab_size, std::int64_t{spec_.vocab_size});
  const bool is_own = id && *id < tokens &&
                      std::ranges::find(spec_.eos_token_ids, *id) == spec_.eos_token_ids.end();
  return is_own ? std::vector<TokenId>{*id} : std::vector<TokenId>();
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
  TANDEM_ASSIGN(const AdapterBytes bytes, host_->take_when_free(adapter.num_bytes, &turn));
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
  if (same && holder->tokenizer() == tokenizer &&
      holder->contents().end_tokens == adapter.end_tokens && holder->pinned() == pinned &&
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
  if (holder != nullptr) retire(holder);
  return {};
}

void AdapterStore::retire(AdapterLease adapter) {
  adapter->retire();
  sets_->forget_retired();
  adapter.reset();
  tell();
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
  retire(std::move(last));
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

AdapterLease AdapterStore::find(const std::string& name) const {
  const std::lock_guard lock(names_mutex_);
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : it->second;
}

Result<AdapterLease> AdapterStore::find_sum(std::span<const AdapterPart> parts) {
  bool changed = false;
  Result<AdapterLease> sum = sets_->find(
      parts, [this](const std::string& name) { return find(name); }, &changed);
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
  if (lease == nullptr) return {};
  const std::weak_ptr<const void> loaded = lease->home().folder_identity();
  if (const auto arriving = lease->home().arriving_folder(); arriving != nullptr) {
    return {loaded, [arriving, links = options_.links](const std::string& file) {
              return read_beside_weights(*arriving, file, links);
            }};
  }
  if (lease->path().empty()) return {};  // made in memory
  return {loaded, [path = lease->path(), links = options_.links](const std::string& file) {
            return read_beside_weights(path, file, links);
          }};
}

// The files must be those that were read. If they are not known (they were new when read, or are on
// another machine), the receiver checks the digest.
Result<AdapterFile> AdapterStore::open_file(const std::string& digest,
                                            std::string_view file) const {
  const bool is_config = file == kPeftConfigName;
  const bool is_beside = std::ranges::find(kFilesBeside, file) != kFilesBeside.end();
  if (!is_config && !is_beside && file != kPeftWeightsName) {
    return error(StatusCode::not_found, "an adapter's files are {}, {}, {}", kPeftConfigName,
                 kPeftWeightsName, fmt::join(kFilesBeside, ", "));
  }
  Status status = error(StatusCode::not_found, "no adapter here has the digest {}", digest);
  for (const AdapterLease& lease : list()) {
    if (lease->contents().digest != digest) continue;
    const AdapterHome::Folder folder = lease->home().folder();
    if (folder.path.empty()) continue;  // made in memory
    Result<Folder> place = Folder::open(folder.path);
    if (!place) {
      status = place.status();
      continue;
    }
    // Adapters of the same weights may lie beside other files, of which a receiver gets one
    // folder's.
    if (file == kTokenizerName) TANDEM_TRY(check_tokenizer(*place, *lease));
    Result<File> opened = place->open_file(std::string(file), options_.links);
    if (is_beside && (!opened || opened->size() > kMaxBesideBytes)) {
      return error(StatusCode::not_found, "the adapter's requests do without {}", file);
    }
    status = opened.status();
    if (!opened) continue;
    TANDEM_ASSIGN(const FileIdentity now, opened->identity());
    const FileIdentity* const before =
        folder.source == nullptr || is_beside
            ? &now
            : (is_config ? &folder.source->config : &folder.source->weights);
    if (now == *before) return AdapterFile{*std::move(opened), now};
    status = error(StatusCode::not_found,
                   "the files of the adapter with the digest {} have changed since they were read",
                   digest);
  }
  return status;
}

// Ok: the folder has the tokenizer of the adapter's requests. not_found: they have the base's.
Status AdapterStore::check_tokenizer(const Folder& folder, const ServedAdapter& adapter) const {
  if (adapter.tokenizer() == nullptr) {
    return error(StatusCode::not_found, "the adapter has the tokenizer of the base");
  }
  const Result<std::string> text = read_beside_weights(folder, kTokenizerName, options_.links);
  if (!text) return text.status();
  const auto found = tokenizers_->find(*text);
  if (found && *found == adapter.tokenizer()) return {};
  return invalid(
      "{} of adapter '{}' has changed since it was read; load it again with load_inplace",
      kTokenizerName, adapter.name());
}

}  // namespace tandem
