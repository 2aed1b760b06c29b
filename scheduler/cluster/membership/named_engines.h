// The engines that a command's flags name: by address, by a registry, or both.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduler/cluster/members/engine_source.h"
#include "scheduler/cluster/membership/registry_engines.h"

namespace tandem {

struct NamedEngines {
  std::vector<std::string> urls;  // http://HOST:PORT
  std::string registry;           // its URL; empty: none

  bool none() const { return urls.empty() && registry.empty(); }
  std::string in_words() const;  // "2 engines and the registry's"
};

// Fails for a bad address, one that cannot be resolved or is named twice, and for a registry that
// cannot be opened. Takes as long as options.resolve.
Result<std::unique_ptr<EngineSource>> engine_source(const NamedEngines& named,
                                                    RegistryEnginesOptions options = {});

}  // namespace tandem
