#include "scheduler/cluster/registry/registry_mirror.h"

namespace tandem {

void RegistryMirror::set(const RegistrySnapshot& all) {
  engines.clear();
  adapters.clear();
  for (const EngineEntry& entry : all.engines) engines[entry.id] = entry;
  for (const AdapterEntry& entry : all.adapters) adapters[entry.name][entry.version] = entry;
}

void RegistryMirror::apply(const RegistryNews& news) {
  for (const EngineEntry& entry : news.engines) engines[entry.id] = entry;
  for (const std::string& id : news.gone_engines) engines.erase(id);
  for (const AdapterEntry& entry : news.adapters) adapters[entry.name][entry.version] = entry;
  for (const AdapterVersion& removed : news.removed_adapters) {
    const auto found = adapters.find(removed.name);
    if (found == adapters.end()) continue;
    found->second.erase(removed.version);
    if (found->second.empty()) adapters.erase(found);
  }
}

}  // namespace tandem
