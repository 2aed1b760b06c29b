#include "scheduler/cluster/registry/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/log/log.h"
#include "base/parse_number.h"

namespace tandem {
namespace {

// Keys: "adapters/NAME@0000000001", "last/NAME" (the last assigned number), "engines/ID". Names do
// not contain '@', so the versions of a name have a common prefix; their digits sort as numbers do.
constexpr std::string_view kAdapters = "adapters/";
constexpr std::string_view kLast = "last/";
constexpr std::string_view kEngines = "engines/";

// Limit of attempts per write. If others keep overtaking it, they make progress.
constexpr int kAttempts = 64;
// etcd accepts 128 operations per transaction.
constexpr std::size_t kMostRemovals = 64;

std::string versions_prefix(std::string_view name) {
  return fmt::format("{}{}@", kAdapters, name);
}
std::string adapter_key(std::string_view name, std::int64_t version) {
  return fmt::format("{}{:010}", versions_prefix(name), version);
}
std::string engine_key(std::string_view id) {
  return fmt::format("{}{}", kEngines, id);
}

// Parses an adapter's key.
std::optional<AdapterVersion> parse_adapter_key(std::string_view key) {
  const std::size_t at = key.rfind('@');
  if (!key.starts_with(kAdapters) || at == std::string_view::npos) return {};
  const auto version = parse_number<std::int64_t>(key.substr(at + 1));
  if (!version || *version < 0) return {};
  return AdapterVersion{std::string(key.substr(kAdapters.size(), at - kAdapters.size())), *version};
}

// Name and version are taken from the key, because entries are found by it.
Result<AdapterEntry> read_adapter(const std::string& key, const std::string& value) {
  const auto named = parse_adapter_key(key);
  Result<AdapterEntry> entry = parse_adapter_entry(value);
  if (entry && (!named || entry->name != named->name || entry->version != named->version)) {
    entry = invalid("it says that it is '{}' version {}", entry->name, entry->version);
  }
  if (entry) return entry;
  return error(StatusCode::internal,
               "the registry's entry {} cannot be read: {}; remove it and add the adapter again",
               key, entry.status().message());
}

Result<EngineEntry> read_engine(const std::string& key, const std::string& value) {
  Result<EngineEntry> entry = parse_engine_entry(value);
  if (entry && engine_key(entry->id) != key) {
    entry = invalid("it says that it is engine '{}'", entry->id);
  }
  if (entry) return entry;
  return error(StatusCode::internal, "the registry's entry {} cannot be read: {}", key,
               entry.status().message());
}

Status overtaken(std::string_view what) {
  return error(StatusCode::unavailable, "others keep changing {} in the registry; try again", what);
}

Status no_version(const std::string& name, std::int64_t version,
                  const std::vector<std::int64_t>& there) {
  if (there.empty()) {
    return error(StatusCode::not_found, "the registry has no adapter '{}'", name);
  }
  return error(StatusCode::not_found, "adapter '{}' has no version {}; there {} {}", name, version,
               there.size() == 1 ? "is" : "are", fmt::join(there, ", "));
}

}  // namespace

std::string end_of_prefix(std::string_view prefix) {
  std::string end(prefix);
  if (end.empty()) return "\x7F";  // after all printable characters
  ++end.back();
  return end;
}

std::vector<AdapterEntry> newest_versions(const std::vector<AdapterEntry>& adapters) {
  std::vector<AdapterEntry> newest;
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const bool is_last = i + 1 == adapters.size() || adapters[i + 1].name != adapters[i].name;
    if (is_last) newest.push_back(adapters[i]);
  }
  return newest;
}

Result<AddedAdapter> Registry::add_adapter(const AdapterEntry& wanted) {
  TANDEM_TRY(check(wanted));
  const std::string last_key = fmt::format("{}{}", kLast, wanted.name);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // The order matters: if a version is added between these reads, the expected number is wrong
    // and the write fails.
    TANDEM_ASSIGN(const std::optional<StoredValue> last, store_->find(last_key));
    TANDEM_ASSIGN(const StoreRead there, store_->read(versions_prefix(wanted.name)));
    AdapterEntry entry = wanted;
    entry.version = 1;
    if (last) {
      const auto number = parse_number<std::int64_t>(last->value);
      if (!number || *number < 0) {
        return error(StatusCode::internal, "the registry's entry {} is no number", last_key);
      }
      entry.version = *number + 1;
    }
    StoreWrite write;
    bool is_new = true;
    if (!there.values.empty()) {
      const StoredValue& stored = there.values.back();
      const Result<AdapterEntry> newest = read_adapter(stored.key, stored.value);
      if (newest && newest->digest == entry.digest) {
        is_new = false;
        entry.version = newest->version;
        entry.created_unix = newest->created_unix;
        if (entry == *newest) return AddedAdapter{entry, false};
        write.expected.push_back({stored.key, stored.revision});
      }
    }
    if (is_new) {
      write.expected.push_back({last_key, last ? last->revision : 0});
      write.puts.push_back({last_key, std::to_string(entry.version)});
    }
    write.puts.push_back({adapter_key(entry.name, entry.version), to_json(entry)});
    TANDEM_ASSIGN(const bool written, store_->write(write));
    if (written) return AddedAdapter{entry, is_new};
  }
  return overtaken(fmt::format("adapter '{}'", wanted.name));
}

Result<AdapterEntry> Registry::find_adapter(const std::string& name, std::int64_t version) {
  TANDEM_TRY(check_adapter_name(name));
  if (version > 0) {
    TANDEM_ASSIGN(const auto found, store_->find(adapter_key(name, version)));
    if (found) return read_adapter(found->key, found->value);
  }
  TANDEM_ASSIGN(const StoreRead there, store_->read(versions_prefix(name)));
  if (version == 0 && !there.values.empty()) {
    return read_adapter(there.values.back().key, there.values.back().value);
  }
  std::vector<std::int64_t> versions;
  for (const StoredValue& stored : there.values) {
    if (const auto named = parse_adapter_key(stored.key)) versions.push_back(named->version);
  }
  return no_version(name, version, versions);
}

Result<std::vector<AdapterEntry>> Registry::adapter_versions(const std::string& name) {
  TANDEM_TRY(check_adapter_name(name));
  TANDEM_ASSIGN(const StoreRead there, store_->read(versions_prefix(name)));
  std::vector<AdapterEntry> entries;
  for (const StoredValue& stored : there.values) {
    TANDEM_ASSIGN(entries.emplace_back(), read_adapter(stored.key, stored.value));
  }
  return entries;
}

// Uses keys alone, so that unreadable entries can be removed.
Result<std::size_t> Registry::remove_adapter(const std::string& name, std::int64_t version) {
  TANDEM_TRY(check_adapter_name(name));
  std::size_t removed = 0;
  std::size_t under_way = 0;  // requested, but not known to be done
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    TANDEM_ASSIGN(const StoreRead there, store_->read(versions_prefix(name)));
    StoreWrite write;
    std::vector<std::int64_t> versions;
    for (const StoredValue& stored : there.values) {
      const auto named = parse_adapter_key(stored.key);
      if (named) versions.push_back(named->version);
      if (version != 0 && (!named || named->version != version)) continue;
      if (write.removals.size() == kMostRemovals) continue;
      write.expected.push_back({stored.key, stored.revision});
      write.removals.push_back(stored.key);
    }
    if (write.removals.empty()) {
      removed += under_way;
      if (removed > 0) return removed;
      return no_version(name, version, versions);
    }
    under_way = write.removals.size();
    TANDEM_ASSIGN(const bool written, store_->write(write));
    if (!written) continue;
    removed += std::exchange(under_way, 0);
    if (version != 0) return removed;
    attempt = 0;  // it made progress
  }
  return overtaken(fmt::format("adapter '{}'", name));
}

Result<EngineLease> Registry::register_engine(const EngineEntry& entry, std::chrono::seconds ttl) {
  TANDEM_TRY(check(entry));
  const std::string key = engine_key(entry.id);
  TANDEM_ASSIGN(const std::int64_t lease, store_->grant_lease(ttl));
  StoreWrite write;
  write.expected.push_back({key, 0});
  write.puts.push_back({key, to_json(entry), lease});
  const Result<bool> written = store_->write(write);
  if (written && *written) return EngineLease{entry.id, lease};
  Status status = written.status();
  if (written) {
    status = error(StatusCode::already_exists,
                   "an engine with the id '{}' is running; each needs an id of its own", entry.id);
    const auto there = store_->find(key);
    if (there && *there && (*there)->lease == lease) return EngineLease{entry.id, lease};
  }
  const Status ended = store_->end_lease(lease);  // if this fails, the lease expires
  if (!ended) log::debug("registry: {}", ended.message());
  return status;
}

Status Registry::update_engine(const EngineLease& lease, const EngineEntry& entry) {
  TANDEM_TRY(check(entry));
  if (entry.id != lease.id) return invalid("engine '{}' is not engine '{}'", entry.id, lease.id);
  const std::string key = engine_key(entry.id);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    TANDEM_ASSIGN(const auto there, store_->find(key));
    if (!there || there->lease != lease.lease) {
      return error(StatusCode::not_found, "the lease of engine '{}' has lapsed", lease.id);
    }
    StoreWrite write;
    write.expected.push_back({key, there->revision});
    write.puts.push_back({key, to_json(entry), lease.lease});
    TANDEM_ASSIGN(const bool written, store_->write(write));
    if (written) return {};
  }
  return overtaken(fmt::format("engine '{}'", entry.id));
}

Status Registry::keep_alive(const EngineLease& lease) {
  return store_->keep_lease(lease.lease).with_context(fmt::format("engine '{}'", lease.id));
}

Status Registry::release(const EngineLease& lease) {
  return store_->end_lease(lease.lease).with_context(fmt::format("engine '{}'", lease.id));
}

Result<RegistrySnapshot> Registry::snapshot() {
  TANDEM_ASSIGN(const StoreRead all, store_->read(""));
  RegistrySnapshot found;
  found.revision = all.revision;
  for (const StoredValue& stored : all.values) {
    Status status;
    if (stored.key.starts_with(kAdapters)) {
      Result<AdapterEntry> entry = read_adapter(stored.key, stored.value);
      status = entry.status();
      if (entry) found.adapters.push_back(std::move(*entry));
    } else if (stored.key.starts_with(kEngines)) {
      Result<EngineEntry> entry = read_engine(stored.key, stored.value);
      status = entry.status();
      if (entry) found.engines.push_back(std::move(*entry));
    }
    if (!status) log::warning("left out: {}", status.message());
  }
  std::ranges::sort(found.adapters, [](const AdapterEntry& a, const AdapterEntry& b) {
    return std::tie(a.name, a.version) < std::tie(b.name, b.version);
  });
  return found;
}

Result<RegistryNews> Registry::watch(std::int64_t since, std::chrono::milliseconds patience) {
  TANDEM_ASSIGN(const StoreNews seen, store_->watch(since, patience));
  RegistryNews news;
  news.revision = seen.revision;
  news.lost = seen.lost;
  std::map<std::string, const std::optional<std::string>*> latest;
  for (const StoreChange& change : seen.changes) latest[change.key] = &change.value;
  for (const auto& [key, value] : latest) {
    const bool is_engine = key.starts_with(kEngines);
    const auto adapter = parse_adapter_key(key);
    Status status;
    if (is_engine && *value) {
      Result<EngineEntry> entry = read_engine(key, **value);
      status = entry.status();
      if (entry) news.engines.push_back(std::move(*entry));
    } else if (is_engine) {
      news.gone_engines.push_back(key.substr(kEngines.size()));
    } else if (adapter && *value) {
      Result<AdapterEntry> entry = read_adapter(key, **value);
      status = entry.status();
      if (entry) news.adapters.push_back(std::move(*entry));
    } else if (adapter) {
      news.removed_adapters.push_back(*adapter);
    }
    if (!status) log::warning("left out: {}", status.message());
  }
  return news;
}

}  // namespace tandem
