// A store that cannot be opened yet, because another process has locked it; the first call that can
// opens it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "scheduler/cluster/registry/registry_store.h"

namespace tandem {

class LateStore final : public RegistryStore {
 public:
  // `patient`: waits for the store's own deadline, else only for a moment.
  using Open = std::function<Result<std::unique_ptr<RegistryStore>>(bool patient)>;

  // Returns the store itself if it can be opened within a moment. If it is unavailable, returns a
  // store that each call tries to open; calls fail as unavailable until that works. Other failures
  // are returned.
  static Result<std::unique_ptr<RegistryStore>> open(Open open);

  Result<StoreRead> read(std::string_view prefix) override;
  Result<std::optional<StoredValue>> find(std::string_view key) override;
  Result<bool> write(const StoreWrite& write) override;
  Result<std::int64_t> grant_lease(std::chrono::seconds ttl) override;
  Status keep_lease(std::int64_t lease) override;
  Status end_lease(std::int64_t lease) override;
  Result<StoreNews> watch(std::int64_t since, std::chrono::milliseconds patience) override;

 private:
  explicit LateStore(Open open) : open_(std::move(open)) {}
  Result<RegistryStore*> store();

  const Open open_;
  std::mutex mutex_;
  std::unique_ptr<RegistryStore> store_;  // guarded by mutex_; never reset
};

}  // namespace tandem
