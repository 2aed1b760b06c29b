// The registry of a cluster: the adapters in all versions, and the live engines. Routers, engines
// and `tandem adapters` share it; its store is an SQLite file on one host or etcd on several.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/cluster/registry/registry_entries.h"
#include "scheduler/cluster/registry/registry_store.h"

namespace tandem {

struct AddedAdapter {
  AdapterEntry entry;  // as it is in the registry
  // Added as a new version; otherwise the newest version already has that content.
  bool is_new = false;
};

// An engine's entry in the registry, for as long as its lease is kept.
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

// The newest version of each adapter of a snapshot.
std::vector<AdapterEntry> newest_versions(const std::vector<AdapterEntry>& adapters);

// The differences from the snapshot or news of an earlier revision: the last state of each entry.
struct RegistryNews {
  std::vector<AdapterEntry> adapters;  // new or changed
  std::vector<AdapterVersion> removed_adapters;
  std::vector<EngineEntry> engines;  // new or changed
  std::vector<std::string> gone_engines;
  std::int64_t revision = 0;
  bool lost = false;  // changes were lost: take a new snapshot
};

// Thread-safe. Returns the store's failures (registry_store.h) and those named below. Concurrent
// writers do not overwrite each other: each change applies to what its writer has read, or is
// retried.
class Registry {
 public:
  explicit Registry(std::unique_ptr<RegistryStore> store) : store_(std::move(store)) {}

  // Adds the entry as the next version of its name, whatever version it contains; older versions
  // stay. If the newest version has the same digest, no version is added and its other fields
  // (source, owner, ...) are updated.
  Result<AddedAdapter> add_adapter(const AdapterEntry& wanted);
  // version 0: the newest one. The message of not_found lists the existing versions.
  Result<AdapterEntry> find_adapter(const std::string& name, std::int64_t version = 0);
  // Oldest first; empty: there is no such adapter.
  Result<std::vector<AdapterEntry>> adapter_versions(const std::string& name);
  // Returns how many were removed: the version, or all versions if it is 0. not_found: there was
  // none.
  Result<std::size_t> remove_adapter(const std::string& name, std::int64_t version = 0);

  // already_exists: an engine with this id is live.
  Result<EngineLease> register_engine(const EngineEntry& entry, std::chrono::seconds ttl);
  // Replaces the engine's entry. not_found: its lease has expired; register it again.
  Status update_engine(const EngineLease& lease, const EngineEntry& entry);
  Status keep_alive(const EngineLease& lease);  // not_found: as above
  Status release(const EngineLease& lease);     // succeeds also if it has expired

  // Unreadable entries are left out, with a warning.
  Result<RegistrySnapshot> snapshot();
  // The changes since that revision; waits up to `patience` for one.
  Result<RegistryNews> watch(std::int64_t since, std::chrono::milliseconds patience);

 private:
  const std::unique_ptr<RegistryStore> store_;
};

// Opens "sqlite:PATH" or "etcd://HOST[:PORT][,HOST[:PORT]...][/PREFIX]". It does not connect to
// etcd yet; a file that another process has locked is opened by the first call that can.
Result<std::unique_ptr<Registry>> open_registry(std::string_view url);

}  // namespace tandem
