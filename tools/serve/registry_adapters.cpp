#include "tools/serve/registry_adapters.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLongestWait{30};  // for others' loads

// Both with links resolved.
bool lies_under(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

}  // namespace

RegistryAdapters::RegistryAdapters(Engine& engine, DType dtype,
                                   const std::vector<std::string>& roots)
    : engine_(engine), dtype_(dtype) {
  for (const std::string& root : roots) {
    std::error_code failure;
    fs::path real = fs::canonical(root, failure);
    if (!failure) roots_.push_back(std::move(real));
  }
}

RegistryAdapters::~RegistryAdapters() = default;

Result<std::unique_ptr<RegistryAdapters>> RegistryAdapters::join(
    const std::string& url, const EngineEntry& entry, Engine& engine, DType dtype,
    const std::vector<std::string>& roots) {
  TANDEM_ASSIGN(auto registry, open_registry(url));
  std::unique_ptr<RegistryAdapters> adapters(new RegistryAdapters(engine, dtype, roots));
  auto* const raw = adapters.get();
  {
    // The member's thread may call follow() before this has it.
    const std::lock_guard lock(raw->loading_);
    TANDEM_ASSIGN(raw->member_,
                  RegistryMember::join(std::move(registry), entry, [raw] { raw->follow(); }));
  }
  return adapters;
}

Status RegistryAdapters::fetch(const std::string& name) {
  const std::optional<AdapterEntry> entry = member_->find_adapter(name);
  if (!entry) return error(StatusCode::not_found, "the registry has no adapter '{}'", name);
  const std::unique_lock lock(loading_, kLongestWait);
  if (!lock) {
    return error(StatusCode::unavailable, "other adapters are being read; try again");
  }
  if (engine_.has_adapter(name)) return {};  // by whoever was here before
  Status loaded = load(*entry);
  if (!loaded) log::warning("adapter '{}' of the registry: {}", name, loaded.message());
  return loaded;
}

void RegistryAdapters::follow() {
  const std::lock_guard lock(loading_);
  for (auto each = fetched_.begin(); each != fetched_.end();) {
    const auto& [name, digest] = *each;
    const std::optional<AdapterEntry> entry = member_->find_adapter(name);
    if (!entry) {
      const Status unloaded = engine_.unload_adapter(name);
      if (unloaded) log::info("adapter '{}' unloaded: the registry has it no more", name);
      each = fetched_.erase(each);
      continue;
    }
    ++each;
    if (entry->digest == digest) continue;
    const Status loaded = load(*entry);
    if (!loaded) {
      log::warning("adapter '{}' version {} of the registry: {}; the one before is served on",
                   entry->name, entry->version, loaded.message());
    }
  }
}

Status RegistryAdapters::load(const AdapterEntry& entry) {
  TANDEM_ASSIGN(const std::string folder, allowed_folder(entry));
  const Result<DType> dtype = parse_dtype(entry.dtype);
  if (!dtype || *dtype != dtype_) {
    return invalid(
        "its digest is of weights in {}, and this engine computes in {}; `tandem adapters add` "
        "with --dtype {} enters it for engines like this",
        entry.dtype, to_string(dtype_), to_string(dtype_));
  }
  TANDEM_TRY(engine_.load_proven_adapter(entry.name, folder, entry.digest));
  fetched_[entry.name] = entry.digest;
  log::info("adapter '{}' version {} of the registry loaded from {}", entry.name, entry.version,
            folder);
  return {};
}

// The registry's writers name any folder; what may be read is this server's to say.
Result<std::string> RegistryAdapters::allowed_folder(const AdapterEntry& entry) const {
  std::error_code failure;
  const fs::path real = fs::weakly_canonical(entry.source, failure);
  const bool allowed = !failure && std::ranges::any_of(roots_, [&](const fs::path& root) {
    return lies_under(real, root);
  });
  if (allowed) return real.string();
  return error(StatusCode::permission_denied,
               "its folder in the registry is not under an adapter_root of this server");
}

}  // namespace tandem
