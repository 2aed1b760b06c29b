// A local copy of a registry's last known state, updated by its news.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "scheduler/cluster/registry/registry.h"

namespace tandem {

// Not thread-safe.
struct RegistryMirror {
  std::map<std::string, EngineEntry> engines;                            // by id
  std::map<std::string, std::map<std::int64_t, AdapterEntry>> adapters;  // by version; never empty

  void set(const RegistrySnapshot& all);
  // The news must follow the copy's revision and must not be `lost`.
  void apply(const RegistryNews& news);
};

}  // namespace tandem
