// One adapter that the engine serves: its contents, and the sources of its bytes.
//
// It is held by shared_ptr: a request's lease keeps it alive through unload and reload. The device
// tier's table (device_table.h) keeps track of the copy on the device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/adapters/adapter_home.h"
#include "engine/adapters/host_tier.h"
#include "engine/adapters/residency.h"
#include "engine/loader/adapter.h"

namespace tandem {

class ServedAdapter;
class Tokenizer;
using AdapterLease = std::shared_ptr<ServedAdapter>;

// An adapter of a set, whose delta counts `scale` times.
struct ScaledAdapter {
  AdapterLease adapter;
  float scale = 1;
  friend bool operator==(const ScaledAdapter&, const ScaledAdapter&) = default;
};

// Thread-safe.
class ServedAdapter {
 public:
  // `contents` has bytes in the host tier, or none yet. `part`: device_layout() of it.
  // `reloadable`: its folder, or the adapters of `set`, can restore the bytes. `tokenizer`: null
  // for the base's.
  ServedAdapter(std::string name, Adapter contents, Adapter part, bool pinned, bool reloadable,
                std::shared_ptr<HostTier> host,
                std::shared_ptr<const Tokenizer> tokenizer = nullptr,
                std::vector<ScaledAdapter> set = {});

  const std::string& name() const { return name_; }
  const Adapter& contents() const { return contents_; }  // without its bytes
  std::uint64_t bytes() const { return contents_.num_bytes; }
  const Adapter& part() const { return part_; }  // the layout on each device
  std::uint64_t device_bytes() const { return part_.num_bytes; }
  // Null: the base's.
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  bool pinned() const { return pinned_; }
  std::int64_t loaded_unix() const { return loaded_unix_; }
  // The adapters whose sum it is (adapter_sum.h); empty: it is no sum.
  const std::vector<ScaledAdapter>& set() const { return set_; }
  Residency residency() const { return home_.state().now(); }
  std::string path() const { return home_.folder().path; }

  // For the store and the device tier, which move the bytes.
  AdapterHome& home() { return home_; }

  // Marks it as unloaded or replaced: it is deleted with its last lease.
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
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::vector<ScaledAdapter> set_;
  std::atomic<bool> retired_{false};
};

}  // namespace tandem
