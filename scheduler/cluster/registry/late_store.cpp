#include "scheduler/cluster/registry/late_store.h"

#include <utility>

namespace tandem {

Result<std::unique_ptr<RegistryStore>> LateStore::open(Open open) {
  Result<std::unique_ptr<RegistryStore>> opened = open(false);
  if (opened || opened.status().code() != StatusCode::unavailable) return opened;
  return std::unique_ptr<RegistryStore>(new LateStore(std::move(open)));
}

Result<RegistryStore*> LateStore::store() {
  const std::lock_guard lock(mutex_);
  if (store_ == nullptr) {
    TANDEM_ASSIGN(store_, open_(true));
  }
  return store_.get();
}

Result<StoreRead> LateStore::read(std::string_view prefix) {
  TANDEM_ASSIGN(RegistryStore* const opened, store());
  return opened->read(prefix);
}

Result<std::optional<StoredValue>> LateStore::find(std::string_view key) {
  TANDEM_ASSIGN(RegistryStore* const opened, store());
  return opened->find(key);
}

Result<bool> LateStore::write(const StoreWrite& write) {
  TANDEM_ASSIGN(RegistryStore* const opened, store());
  return opened->write(write);
}

Result<std::int64_t> LateStore::grant_lease(std::chrono::seconds ttl) {
  TANDEM_ASSIGN(RegistryStore* const opened, store());
  return opened->grant_lease(ttl);
}

Status LateStore::keep_lease(std::int64_t lease) {
  TANDEM_ASSIGN(RegistryStore* const opened, store());
  return opened->keep_lease(lease);
}

Status LateStore::end_lease(std::int64_t lease) {
  TANDEM_ASSIGN(RegistryStore* const opened, store());
  return opened->end_lease(lease);
}

Result<StoreNews> LateStore::watch(std::int64_t since, std::chrono::milliseconds patience) {
  TANDEM_ASSIGN(RegistryStore* const opened, store());
  return opened->watch(since, patience);
}

}  // namespace tandem
