// What a registry held when it was last heard, kept up from its news.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "scheduler/registry/registry.h"

namespace tandem {

// Not thread-safe.
struct RegistryMirror {
  std::map<std::string, EngineEntry> engines;                            // by id
  std::map<std::string, std::map<std::int64_t, AdapterEntry>> adapters;  // by version; never empty

  void set(const RegistrySnapshot& all);
  void apply(const RegistryNews& news);  // of the revision after; not for news that are lost
};

}  // namespace tandem
