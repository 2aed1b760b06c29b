// Adapters of a cluster's registry, served by name although nobody gave them to this server: each
// is read when a request names it first, proven by its digest, and follows its newest version.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "engine/batching/engine.h"
#include "scheduler/registry/registry.h"
#include "scheduler/registry/registry_member.h"

namespace tandem {

class RegistryAdapters {
 public:
  // Registers the engine; it outlives this. Folders of adapters must lie under one of `roots`.
  static Result<std::unique_ptr<RegistryAdapters>> join(const std::string& url,
                                                        const EngineEntry& entry, Engine& engine,
                                                        DType dtype,
                                                        const std::vector<std::string>& roots);
  // Leaves the registry. Adapters stay served.
  ~RegistryAdapters();
  RegistryAdapters(const RegistryAdapters&) = delete;
  RegistryAdapters& operator=(const RegistryAdapters&) = delete;

  // Makes the newest version of this name servable. not_found: the registry does not have it. Takes
  // as long as reading it, and those before it, takes. Thread-safe.
  Status fetch(const std::string& name);

  // Of the engine's place in the registry: RegistryMember's. Thread-safe.
  void set_serving(bool serving) { member_->set_serving(serving); }

 private:
  RegistryAdapters(Engine& engine, DType dtype, const std::vector<std::string>& roots);
  void follow();  // what was fetched, to its newest version
  Status load(const AdapterEntry& entry);
  Result<std::string> allowed_folder(const AdapterEntry& entry) const;

  Engine& engine_;
  const DType dtype_;
  std::vector<std::filesystem::path> roots_;    // links resolved
  std::timed_mutex loading_;                    // guards fetched_
  std::map<std::string, std::string> fetched_;  // digests by name
  std::unique_ptr<RegistryMember> member_;      // its thread uses all of the above: ends first
};

}  // namespace tandem
