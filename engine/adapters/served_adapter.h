// One adapter that the engine serves: what it is, and where its bytes come from.
//
// Held by shared_ptr: a request's lease keeps it alive through unload and reload. What of it lies
// on the device is not here but in the device tier's table (device_table.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/adapters/adapter_home.h"
#include "engine/adapters/host_tier.h"
#include "engine/adapters/residency.h"
#include "engine/loader/adapter.h"

namespace tandem {

// Thread-safe.
class ServedAdapter {
 public:
  // Its bytes are the host tier's. `part`: device_layout() of it. `reloadable`: its folder can
  // bring it back.
  ServedAdapter(std::string name, Adapter contents, Adapter part, bool pinned, bool reloadable,
                std::shared_ptr<HostTier> host);

  const std::string& name() const { return name_; }
  const Adapter& contents() const { return contents_; }  // without its bytes
  std::uint64_t bytes() const { return contents_.num_bytes; }
  const Adapter& part() const { return part_; }  // what lies on each device of it
  std::uint64_t device_bytes() const { return part_.num_bytes; }
  bool pinned() const { return pinned_; }
  std::int64_t loaded_unix() const { return loaded_unix_; }
  Residency residency() const { return home_.state().now(); }
  std::string path() const { return home_.folder().path; }

  // Of the store and the device tier, which move it.
  AdapterHome& home() { return home_; }

  // Unloaded or replaced: goes when the last lease does.
  void retire() { retired_.store(true, std::memory_order_relaxed); }
  bool retired() const { return retired_.load(std::memory_order_relaxed); }

  // For GET /v1/adapters.
  mutable std::atomic<std::int32_t> running{0};
  mutable std::atomic<std::int32_t> waiting{0};
  mutable std::atomic<std::uint64_t> hits{0};
  mutable std::atomic<std::uint64_t> cold_starts{0};

 private:
  const std::string name_;
  const bool pinned_;
  const std::int64_t loaded_unix_;
  AdapterHome home_;
  const Adapter contents_;
  const Adapter part_;
  std::atomic<bool> retired_{false};
};
using AdapterLease = std::shared_ptr<ServedAdapter>;

}  // namespace tandem
