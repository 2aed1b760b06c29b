// The engines that a command's flags name: each by its address, those of a registry, or both.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduler/cluster/engine_source.h"
#include "scheduler/cluster/membership/registry_engines.h"

namespace tandem {

struct NamedEngines {
  std::vector<std::string> urls;  // http://HOST:PORT
  std::string registry;           // its URL; empty: none

  bool none() const { return urls.empty() && registry.empty(); }
  std::string in_words() const;  // "2 engines and the registry's"
};

// A bad address, one that cannot be resolved or is named twice, and a registry that cannot be
// opened are errors. May take as long as options.resolve does.
Result<std::unique_ptr<EngineSource>> engine_source(const NamedEngines& named,
                                                    RegistryEnginesOptions options = {});

}  // namespace tandem
