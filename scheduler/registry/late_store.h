// A store that cannot be opened yet, as another process holds it: opened by the first call that
// can.
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
#include "scheduler/registry/registry_store.h"

namespace tandem {

class LateStore final : public RegistryStore {
 public:
  // `patient`: waits for the store's own deadline, else for a moment only.
  using Open = std::function<Result<std::unique_ptr<RegistryStore>>(bool patient)>;

  // The store itself, if it can be opened in a moment. Where it is unavailable, one that is opened
  // by a call, each of which fails in the same way until then. Other failures are told.
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
  std::unique_ptr<RegistryStore> store_;  // guarded by mutex_; once there it stays
};

}  // namespace tandem
