// An engine's membership of a cluster: it is in the registry for as long as this lives, and knows
// which adapters the registry has, and which other engines, without asking for each.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduler/registry/registry.h"
#include "scheduler/registry/registry_loop.h"
#include "scheduler/registry/registry_mirror.h"

namespace tandem {

struct MemberOptions {
  std::chrono::seconds ttl{10};  // of the lease; kept alive three times as often
  // A watch lasts so long: as often it is looked whether to end, and whether the lease is due.
  std::chrono::milliseconds patience{500};
};

// A thread of its own keeps the lease and follows the news. While the registry does not answer,
// what was known last stands; a lease that has lapsed meanwhile is taken anew.
class RegistryMember {
 public:
  // Registers the engine and reads all of the registry. Where that does not answer
  // (StatusCode::unavailable) the log says so, and both are done when it does. `on_change` is
  // called on the member's thread after adapters have changed, and may ask find_adapter(). A
  // failure: the registry refuses, or an engine of this id lives.
  static Result<std::unique_ptr<RegistryMember>> join(std::unique_ptr<Registry> registry,
                                                      const EngineEntry& engine,
                                                      std::function<void()> on_change,
                                                      const MemberOptions& options = {});
  // stop(), and gives the lease back. Takes as long as a watch and the store's deadline at most.
  ~RegistryMember();
  RegistryMember(const RegistryMember&) = delete;
  RegistryMember& operator=(const RegistryMember&) = delete;

  // The newest version, as far as is known here; of "NAME@2" that version, and the entry is then
  // called so, too. Thread-safe.
  std::optional<AdapterEntry> find_adapter(const std::string& name) const;

  // The newest version of each, by name; what was known last. Thread-safe.
  std::vector<AdapterEntry> newest_adapters() const;

  const EngineEntry& engine() const { return engine_; }
  // The others that are registered, by id; what was known last. Thread-safe.
  std::vector<EngineEntry> other_engines() const;
  // Whether the registry has ever answered: before, nobody knows which adapters there are.
  // Thread-safe.
  bool has_read() const;

  // Ends its thread: adapters are followed and the lease is kept no more, and on_change is not
  // called again. What is known stays. Idempotent; from one thread.
  void stop() { loop_.reset(); }

  // False: an engine that drains. It gives its lease back, a watch later at most, and is registered
  // again when it serves again; adapters are followed all the while. Thread-safe.
  void set_serving(bool serving) { serving_.store(serving, std::memory_order_relaxed); }

 private:
  RegistryMember(std::unique_ptr<Registry> registry, EngineEntry engine,
                 std::function<void()> on_change, const MemberOptions& options);
  Status begin();
  Status register_anew();
  Status give_back();
  Status keep_lease();
  Status follow();
  Status read_all();
  bool take(const RegistryNews& news);  // whether adapters have changed

  const std::unique_ptr<Registry> registry_;
  const EngineEntry engine_;
  const std::function<void()> on_change_;
  const MemberOptions options_;

  // Of the loop, once it runs.
  EngineLease lease_;
  std::int64_t revision_ = 0;
  bool must_read_all_ = false;
  std::chrono::steady_clock::time_point keep_at_;

  std::atomic<bool> serving_{true};

  mutable std::mutex mutex_;  // guards these
  bool has_read_ = false;
  RegistryMirror mirror_;  // this engine is in it, too

  std::unique_ptr<RegistryLoop> loop_;  // uses all of the above
};

}  // namespace tandem
