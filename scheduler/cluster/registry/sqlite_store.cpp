#include "scheduler/cluster/registry/sqlite_store.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <thread>
#include <utility>
#include <vector>

namespace tandem {
namespace {

// The application id in the file's header, which identifies the registry's databases.
constexpr std::int64_t kApplicationId = 0x54'4E'44'4D;  // "TNDM"
constexpr std::int64_t kSchema = 1;

constexpr const char* kTables[] = {
    "CREATE TABLE entries(key TEXT PRIMARY KEY, value TEXT NOT NULL, revision INTEGER NOT NULL, "
    "lease INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX entries_of_leases ON entries(lease) WHERE lease != 0",
    "CREATE TABLE leases(id INTEGER PRIMARY KEY AUTOINCREMENT, ttl_ms INTEGER NOT NULL, "
    "lapses_ms INTEGER NOT NULL, boot TEXT NOT NULL)",
    "CREATE TABLE changes(revision INTEGER NOT NULL, key TEXT NOT NULL, value TEXT, "
    "PRIMARY KEY(revision, key)) WITHOUT ROWID",
    "CREATE TABLE state(id INTEGER PRIMARY KEY CHECK(id = 1), revision INTEGER NOT NULL, "
    "dropped INTEGER NOT NULL)",
    // The first revision is 1, because 0 means that there is no such key.
    "INSERT INTO state VALUES(1, 1, 0)",
    "PRAGMA application_id=1414415437",
    "PRAGMA user_version=1",
};
static_assert(kApplicationId == 1'414'415'437 && kSchema == 1);

constexpr std::chrono::milliseconds kPoll{10};

// Uses ifstream instead of File, because files of /proc have no size.
Result<std::string> boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (file >> id) return id;
  return error(StatusCode::internal, "registry: /proc does not say which boot of the host this is");
}

// The number that a statement with one row returns.
Result<std::int64_t> only_number(SqliteFile& file, const char* sql,
                                 std::initializer_list<SqliteValue> values = {}) {
  TANDEM_ASSIGN(SqliteRows rows, file.query(sql, values));
  TANDEM_ASSIGN(const bool row, rows.next());
  return row ? rows.number(0) : 0;
}

Status lease_ended(std::int64_t lease) {
  return error(StatusCode::not_found, "lease {} has lapsed", lease);
}

}  // namespace

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(const std::string& path,
                                                       SqliteStoreOptions options) {
  static const SteadyClock host_clock;
  if (options.clock == nullptr) options.clock = &host_clock;
  if (options.boot.empty()) {
    TANDEM_ASSIGN(options.boot, boot_id());
  }
  TANDEM_ASSIGN(auto file, SqliteFile::open(path, options.file));
  std::unique_ptr<SqliteStore> store(new SqliteStore(std::move(file), std::move(options)));
  TANDEM_TRY(store->create_tables());
  return store;
}

Status SqliteStore::create_tables() {
  const std::lock_guard lock(mutex_);
  TANDEM_ASSIGN(auto transaction, SqliteTransaction::begin(*file_, SqliteTransaction::Kind::write));
  TANDEM_ASSIGN(const std::int64_t application, only_number(*file_, "PRAGMA application_id"));
  TANDEM_ASSIGN(const std::int64_t schema, only_number(*file_, "PRAGMA user_version"));
  TANDEM_ASSIGN(const std::int64_t tables,
                only_number(*file_, "SELECT COUNT(*) FROM sqlite_master"));
  if (tables == 0) {
    for (const char* const sql : kTables) TANDEM_TRY(file_->run(sql));
  } else if (application != kApplicationId) {
    return invalid("registry {}: it is another program's database; name another file",
                   file_->path());
  } else if (schema != kSchema) {
    return invalid("registry {}: a newer Tandem has written it (format {}, this one reads {})",
                   file_->path(), schema, kSchema);
  }
  return transaction.commit();
}

std::int64_t SqliteStore::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             options_.clock->now().time_since_epoch())
      .count();
}

Result<StoreRead> SqliteStore::read_range(std::string_view first, std::string_view end) {
  TANDEM_ASSIGN(auto transaction, SqliteTransaction::begin(*file_, SqliteTransaction::Kind::read));
  StoreRead found;
  TANDEM_ASSIGN(found.revision, revision());
  {
    TANDEM_ASSIGN(SqliteRows rows,
                  file_->query("SELECT key, value, revision, lease FROM entries WHERE key >= ?1 "
                               "AND key < ?2 AND (lease = 0 OR lease IN (SELECT id FROM leases "
                               "WHERE boot = ?3 AND lapses_ms > ?4)) ORDER BY key",
                               {first, end, std::string_view(options_.boot), now_ms()}));
    for (;;) {
      TANDEM_ASSIGN(const bool row, rows.next());
      if (!row) break;
      found.values.push_back({rows.text(0), rows.text(1), rows.number(2), rows.number(3)});
    }
  }
  TANDEM_TRY(transaction.commit());
  return found;
}

Result<StoreRead> SqliteStore::read(std::string_view prefix) {
  const std::lock_guard lock(mutex_);
  return read_range(prefix, end_of_prefix(prefix));
}

Result<std::optional<StoredValue>> SqliteStore::find(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const std::string end = std::string(key) + '\x01';  // before all longer keys
  TANDEM_ASSIGN(StoreRead found, read_range(key, end));
  if (found.values.empty()) return std::optional<StoredValue>();
  return std::optional<StoredValue>(std::move(found.values.front()));
}

Result<std::int64_t> SqliteStore::revision() {
  return only_number(*file_, "SELECT revision FROM state");
}

// The revision for the transaction's changes; deletes old changes.
Result<std::int64_t> SqliteStore::next_revision() {
  TANDEM_TRY(file_->run("UPDATE state SET revision = revision + 1"));
  TANDEM_ASSIGN(const std::int64_t now, revision());
  const std::int64_t old = now - options_.kept_revisions;
  TANDEM_TRY(file_->run("DELETE FROM changes WHERE revision <= ?1", {old}));
  TANDEM_TRY(file_->run("UPDATE state SET dropped = MAX(dropped, ?1)", {old}));
  return now;
}

Result<bool> SqliteStore::has_lapsed_leases() {
  TANDEM_ASSIGN(
      const std::int64_t lapsed,
      only_number(*file_, "SELECT COUNT(*) FROM leases WHERE boot != ?1 OR lapses_ms <= ?2",
                  {std::string_view(options_.boot), now_ms()}));
  return lapsed > 0;
}

Status SqliteStore::remove_lapsed_leases() {
  std::vector<std::int64_t> lapsed;
  {
    TANDEM_ASSIGN(SqliteRows rows,
                  file_->query("SELECT id FROM leases WHERE boot != ?1 OR lapses_ms <= ?2",
                               {std::string_view(options_.boot), now_ms()}));
    for (;;) {
      TANDEM_ASSIGN(const bool row, rows.next());
      if (!row) break;
      lapsed.push_back(rows.number(0));
    }
  }
  if (lapsed.empty()) return {};
  TANDEM_ASSIGN(const std::int64_t now, next_revision());
  for (const std::int64_t lease : lapsed) TANDEM_TRY(remove_lease(lease, now));
  return {};
}

Status SqliteStore::remove_lease(std::int64_t lease, std::int64_t revision) {
  TANDEM_TRY(file_->run(
      "INSERT OR REPLACE INTO changes SELECT ?1, key, NULL FROM entries WHERE lease = ?2",
      {revision, lease}));
  TANDEM_TRY(file_->run("DELETE FROM entries WHERE lease = ?1", {lease}));
  return file_->run("DELETE FROM leases WHERE id = ?1", {lease});
}

Result<bool> SqliteStore::holds(const StoreWrite::Expectation& expected) {
  TANDEM_ASSIGN(const std::int64_t there,
                only_number(*file_, "SELECT revision FROM entries WHERE key = ?1",
                            {std::string_view(expected.key)}));
  return there == expected.revision;
}

Status SqliteStore::put(const StoreWrite::Put& put, std::int64_t revision) {
  const std::string_view key = put.key;
  const std::string_view value = put.value;
  if (put.lease != 0) {
    TANDEM_ASSIGN(const std::int64_t lives,
                  only_number(*file_, "SELECT COUNT(*) FROM leases WHERE id = ?1", {put.lease}));
    if (lives == 0) return lease_ended(put.lease);
  }
  TANDEM_TRY(file_->run("INSERT OR REPLACE INTO entries VALUES(?1, ?2, ?3, ?4)",
                        {key, value, revision, put.lease}));
  return file_->run("INSERT OR REPLACE INTO changes VALUES(?1, ?2, ?3)", {revision, key, value});
}

Status SqliteStore::remove(std::string_view key, std::int64_t revision) {
  TANDEM_TRY(file_->run("DELETE FROM entries WHERE key = ?1", {key}));
  if (file_->changed_rows() == 0) return {};
  return file_->run("INSERT OR REPLACE INTO changes VALUES(?1, ?2, NULL)", {revision, key});
}

Result<bool> SqliteStore::write(const StoreWrite& write) {
  const std::lock_guard lock(mutex_);
  TANDEM_ASSIGN(auto transaction, SqliteTransaction::begin(*file_, SqliteTransaction::Kind::write));
  TANDEM_TRY(remove_lapsed_leases());
  for (const StoreWrite::Expectation& expected : write.expected) {
    TANDEM_ASSIGN(const bool as_expected, holds(expected));
    if (!as_expected) return false;
  }
  TANDEM_ASSIGN(const std::int64_t now, next_revision());
  for (const std::string& key : write.removals) TANDEM_TRY(remove(key, now));
  for (const StoreWrite::Put& each : write.puts) TANDEM_TRY(put(each, now));
  TANDEM_TRY(transaction.commit());
  return true;
}

Result<std::int64_t> SqliteStore::grant_lease(std::chrono::seconds ttl) {
  const std::lock_guard lock(mutex_);
  const std::int64_t ttl_ms = std::chrono::milliseconds(ttl).count();
  TANDEM_ASSIGN(auto transaction, SqliteTransaction::begin(*file_, SqliteTransaction::Kind::write));
  TANDEM_TRY(file_->run("INSERT INTO leases(ttl_ms, lapses_ms, boot) VALUES(?1, ?2, ?3)",
                        {ttl_ms, now_ms() + ttl_ms, std::string_view(options_.boot)}));
  const std::int64_t lease = file_->last_row_id();
  TANDEM_TRY(transaction.commit());
  return lease;
}

Status SqliteStore::keep_lease(std::int64_t lease) {
  const std::lock_guard lock(mutex_);
  TANDEM_ASSIGN(auto transaction, SqliteTransaction::begin(*file_, SqliteTransaction::Kind::write));
  TANDEM_TRY(
      file_->run("UPDATE leases SET lapses_ms = ?1 + ttl_ms WHERE id = ?2 AND boot = ?3 AND "
                 "lapses_ms > ?1",
                 {now_ms(), lease, std::string_view(options_.boot)}));
  if (file_->changed_rows() == 0) return lease_ended(lease);
  return transaction.commit();
}

Status SqliteStore::end_lease(std::int64_t lease) {
  const std::lock_guard lock(mutex_);
  TANDEM_ASSIGN(auto transaction, SqliteTransaction::begin(*file_, SqliteTransaction::Kind::write));
  TANDEM_ASSIGN(const std::int64_t now, next_revision());
  TANDEM_TRY(remove_lease(lease, now));
  return transaction.commit();
}

Result<StoreNews> SqliteStore::news(std::int64_t since) {
  TANDEM_ASSIGN(const bool has_lapsed, has_lapsed_leases());
  if (has_lapsed) {
    TANDEM_ASSIGN(auto removal, SqliteTransaction::begin(*file_, SqliteTransaction::Kind::write));
    TANDEM_TRY(remove_lapsed_leases());
    TANDEM_TRY(removal.commit());
  }
  TANDEM_ASSIGN(auto transaction, SqliteTransaction::begin(*file_, SqliteTransaction::Kind::read));
  StoreNews found;
  TANDEM_ASSIGN(found.revision, revision());
  TANDEM_ASSIGN(const std::int64_t dropped, only_number(*file_, "SELECT dropped FROM state"));
  if (since < dropped || since > found.revision) {
    found.lost = true;
    return found;
  }
  if (since == found.revision) return found;
  TANDEM_ASSIGN(SqliteRows rows, file_->query("SELECT key, value FROM changes WHERE revision > ?1 "
                                              "ORDER BY revision",
                                              {since}));
  for (;;) {
    TANDEM_ASSIGN(const bool row, rows.next());
    if (!row) return found;
    found.changes.push_back({rows.text(0), {}});
    if (!rows.is_null(1)) found.changes.back().value = rows.text(1);
  }
}

// Polls, because SQLite does not notify other processes of writes.
Result<StoreNews> SqliteStore::watch(std::int64_t since, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      TANDEM_ASSIGN(StoreNews found, news(since));
      if (found.lost || !found.changes.empty()) return found;
      if (std::chrono::steady_clock::now() >= deadline) return found;
    }
    std::this_thread::sleep_until(std::min(deadline, std::chrono::steady_clock::now() + kPoll));
  }
}

}  // namespace tandem
