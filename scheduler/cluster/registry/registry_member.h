// An engine's membership of a cluster: while this object lives, the engine is in the registry, and
// the registry's adapters and the other engines are available here without a request.
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
#include "scheduler/cluster/registry/registry.h"
#include "scheduler/cluster/registry/registry_loop.h"
#include "scheduler/cluster/registry/registry_mirror.h"

namespace tandem {

struct MemberOptions {
  std::chrono::seconds ttl{10};  // of the lease, which is kept alive three times as often
  // Duration of a watch; after each one the thread checks whether to end and whether the lease is
  // due.
  std::chrono::milliseconds patience{500};
};

// Its own thread keeps the lease and follows the news. While the registry does not answer, the last
// known state is used; if the lease has expired meanwhile, a new one is taken.
class RegistryMember {
 public:
  // Registers the engine and reads the whole registry. If the registry does not answer
  // (StatusCode::unavailable), this is logged and both are done later. `on_change` is called on the
  // member's thread after adapters have changed, and may call find_adapter(). Fails if the registry
  // refuses, or if an engine with this id is live.
  static Result<std::unique_ptr<RegistryMember>> join(std::unique_ptr<Registry> registry,
                                                      const EngineEntry& engine,
                                                      std::function<void()> on_change,
                                                      const MemberOptions& options = {});
  // Calls stop() and releases the lease. Takes at most a watch plus the store's deadline.
  ~RegistryMember();
  RegistryMember(const RegistryMember&) = delete;
  RegistryMember& operator=(const RegistryMember&) = delete;

  // The newest known version; for "NAME@2" that version, and the returned entry then has that name.
  // Thread-safe.
  std::optional<AdapterEntry> find_adapter(const std::string& name) const;

  // The last known newest version of each adapter, by name. Thread-safe.
  std::vector<AdapterEntry> newest_adapters() const;

  const EngineEntry& engine() const { return engine_; }
  // The last known other registered engines, by id. Thread-safe.
  std::vector<EngineEntry> other_engines() const;
  // Whether the registry has ever answered; before that the adapters are unknown. Thread-safe.
  bool has_read() const;

  // Ends the thread: adapters are no longer followed, the lease is no longer kept, and on_change is
  // not called again. The known state stays. Idempotent; call it from one thread.
  void stop() { loop_.reset(); }

  // False: the engine drains. It releases its lease, after at most a watch, and is registered again
  // when it serves again; adapters are followed all the time. Thread-safe.
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

  // Used only by the loop once it runs.
  EngineLease lease_;
  std::int64_t revision_ = 0;
  bool must_read_all_ = false;
  std::chrono::steady_clock::time_point keep_at_;

  std::atomic<bool> serving_{true};

  mutable std::mutex mutex_;  // guards the following two
  bool has_read_ = false;
  RegistryMirror mirror_;  // includes this engine

  std::unique_ptr<RegistryLoop> loop_;  // uses all of the above
};

}  // namespace tandem
