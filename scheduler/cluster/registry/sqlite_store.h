// The registry's store in a file, for all processes of one host.
//
//   entries   key, value, the revision of its last change, its lease
//   leases    id, time to live, expiry in milliseconds of the host's monotonic clock, which
//             cannot be set, and the id of the host's boot, since which that clock counts; leases
//             of other boots have expired
//   changes   revision, key, value (none: removed); the newest kept_revisions revisions
//   state     the revision, and the one up to which changes have been dropped
//
// An expired lease is ignored at once; the next write or watch removes it and its values as a
// change like any other.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "scheduler/cluster/registry/registry_store.h"
#include "scheduler/cluster/registry/sqlite_file.h"

namespace tandem {

struct SqliteStoreOptions {
  SqliteOptions file;
  const Clock* clock = nullptr;  // outlives the store; null: the host's
  std::string boot;              // empty: this boot of the host
  std::int64_t kept_revisions = 10'000;
};

class SqliteStore final : public RegistryStore {
 public:
  static Result<std::unique_ptr<SqliteStore>> open(const std::string& path,
                                                   SqliteStoreOptions options = {});

  Result<StoreRead> read(std::string_view prefix) override;
  Result<std::optional<StoredValue>> find(std::string_view key) override;
  Result<bool> write(const StoreWrite& write) override;
  Result<std::int64_t> grant_lease(std::chrono::seconds ttl) override;
  Status keep_lease(std::int64_t lease) override;
  Status end_lease(std::int64_t lease) override;
  Result<StoreNews> watch(std::int64_t since, std::chrono::milliseconds patience) override;

 private:
  SqliteStore(std::unique_ptr<SqliteFile> file, SqliteStoreOptions options)
      : file_(std::move(file)), options_(std::move(options)) {}

  // Call all of these with mutex_ held, and those that write within a transaction.
  Status create_tables();
  Result<StoreRead> read_range(std::string_view first, std::string_view end);
  Result<std::int64_t> revision();
  Result<std::int64_t> next_revision();
  Result<bool> has_lapsed_leases();
  Status remove_lapsed_leases();
  Status remove_lease(std::int64_t lease, std::int64_t revision);
  Result<bool> holds(const StoreWrite::Expectation& expected);
  Status put(const StoreWrite::Put& put, std::int64_t revision);
  Status remove(std::string_view key, std::int64_t revision);
  Result<StoreNews> news(std::int64_t since);
  std::int64_t now_ms() const;

  std::mutex mutex_;  // guards the file
  const std::unique_ptr<SqliteFile> file_;
  const SqliteStoreOptions options_;
};

}  // namespace tandem
