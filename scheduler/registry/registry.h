// The registry of a cluster: which adapters there are, in which versions, and which engines live.
// Routers, engines and `tandem adapters` share it; its store is SQLite's file on one host and etcd
// on many.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/registry/registry_entries.h"
#include "scheduler/registry/registry_store.h"

namespace tandem {

struct AddedAdapter {
  AdapterEntry entry;   // as it stands in the registry
  bool is_new = false;  // a version of its own; else the newest has that content already
};

// An engine's place in the registry, for as long as it keeps it.
struct EngineLease {
  std::string id;
  std::int64_t lease = 0;
};

struct RegistrySnapshot {
  std::vector<AdapterEntry> adapters;  // by name, then version
  std::vector<EngineEntry> engines;    // by id
  std::int64_t revision = 0;
};

struct AdapterVersion {
  std::string name;
  std::int64_t version = 0;

  bool operator==(const AdapterVersion&) const = default;
};

// Of a snapshot's adapters.
std::vector<AdapterEntry> newest_versions(const std::vector<AdapterEntry>& adapters);

// What differs from the snapshot, or from the news, of the revision before: the last state of each.
struct RegistryNews {
  std::vector<AdapterEntry> adapters;  // new or changed
  std::vector<AdapterVersion> removed_adapters;
  std::vector<EngineEntry> engines;  // new or changed
  std::vector<std::string> gone_engines;
  std::int64_t revision = 0;
  bool lost = false;  // take a new snapshot: what happened since is not known
};

// Thread-safe. Failures are the store's (registry_store.h), and those said below. Of several
// writers at once none loses what it wrote: each change is made to what its writer has read, or
// made again.
class Registry {
 public:
  explicit Registry(std::unique_ptr<RegistryStore> store) : store_(std::move(store)) {}

  // Adds it as the next version of its name, whatever version it says; older ones stay. With the
  // digest of the newest version it is that one, and the rest of it (source, owner, ...) is
  // renewed.
  Result<AddedAdapter> add_adapter(const AdapterEntry& wanted);
  // version 0: the newest that there is. not_found says which versions there are.
  Result<AdapterEntry> find_adapter(const std::string& name, std::int64_t version = 0);
  // Oldest first; none: there is no such adapter.
  Result<std::vector<AdapterEntry>> adapter_versions(const std::string& name);
  // How many were removed: the version, or, with 0, all of them. not_found: there was none.
  Result<std::size_t> remove_adapter(const std::string& name, std::int64_t version = 0);

  // already_exists: an engine of this id lives.
  Result<EngineLease> register_engine(const EngineEntry& entry, std::chrono::seconds ttl);
  // Says something else of it. not_found: its lease has lapsed; register it again.
  Status update_engine(const EngineLease& lease, const EngineEntry& entry);
  Status keep_alive(const EngineLease& lease);  // not_found: as above
  Status release(const EngineLease& lease);     // fine when it has lapsed

  // Entries that cannot be read are left out, with a warning.
  Result<RegistrySnapshot> snapshot();
  // What has changed since that revision; waits for it so long.
  Result<RegistryNews> watch(std::int64_t since, std::chrono::milliseconds patience);

 private:
  const std::unique_ptr<RegistryStore> store_;
};

// Opens "sqlite:PATH" or "etcd://HOST[:PORT][,HOST[:PORT]...][/PREFIX]". Of etcd nobody is asked
// yet; a file that another process has locked is opened by the first call that can.
Result<std::unique_ptr<Registry>> open_registry(std::string_view url);

}  // namespace tandem
