#include "scheduler/cluster/registry/sqlite_file.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/log/log.h"

namespace tandem {
namespace {

constexpr std::int64_t kPageBytes = 4096;  // SQLite's default
constexpr int kMaxValueBytes = 16 << 20;

// Creates the file with mode 0600, because SQLite would use the umask. An existing file is not
// opened here: closing it would release the locks that this process has on it.
Status make_file(const std::string& path) {
  const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);
  if (made >= 0) {
    ::close(made);
    return {};
  }
  if (errno != EEXIST) return errno_status("registry " + path, errno);
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return errno_status("registry " + path, errno);
  return S_ISREG(found.st_mode) ? Status() : invalid("registry {}: not a regular file", path);
}

}  // namespace

void SqliteRows::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);  // its result repeats next()'s
}

Result<bool> SqliteRows::next() {
  const int code = sqlite3_step(rows_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return file_->failure(code);
}

std::int64_t SqliteRows::number(int column) const {
  return sqlite3_column_int64(rows_.get(), column);
}

std::string SqliteRows::text(int column) const {
  const auto* const bytes =
      // Call before reading the length.
      static_cast<const char*>(sqlite3_column_blob(rows_.get(), column));
  const int count = sqlite3_column_bytes(rows_.get(), column);
  return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(count));
}

bool SqliteRows::is_null(int column) const {
  return sqlite3_column_type(rows_.get(), column) == SQLITE_NULL;
}

Result<std::unique_ptr<SqliteFile>> SqliteFile::open(const std::string& path,
                                                     const SqliteOptions& options) {
  if (path.empty()) return invalid("registry: the path after 'sqlite:' is empty");
  TANDEM_TRY(make_file(path));
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  if (handle == nullptr) {
    return error(StatusCode::resource_exhausted, "registry {}: no memory", path);
  }
  std::unique_ptr<SqliteFile> file(new SqliteFile(path, handle, options));
  if (code != SQLITE_OK) return file->failure(code);
  TANDEM_TRY(file->prepare_to_write());
  return file;
}

Status SqliteFile::prepare_to_write() {
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  // The content of the file is not trusted: its schema must not run code.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_busy_timeout(handle_, static_cast<int>(options_.busy_timeout.count()));
  // If two processes open a new file at once, SQLite does not wait for the first one, so this
  // retries.
  const auto deadline = std::chrono::steady_clock::now() + options_.busy_timeout;
  std::string mode;
  for (;;) {
    auto rows = query("PRAGMA journal_mode=WAL");
    Status status = rows.status();
    if (rows) {
      const Result<bool> row = rows->next();
      status = row.status();
      if (row && *row) mode = rows->text(0);
    }
    if (status) break;
    if (status.code() != StatusCode::unavailable || std::chrono::steady_clock::now() > deadline) {
      return status;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (mode != "wal") {
    return error(StatusCode::internal,
                 "registry {}: its file system cannot share memory between processes; put it on a "
                 "local disk, or use etcd for several hosts",
                 path_);
  }
  TANDEM_TRY(run("PRAGMA synchronous=FULL"));
  TANDEM_TRY(run("PRAGMA cell_size_check=ON"));
  const std::string limit = fmt::format("PRAGMA max_page_count={}",
                                        std::max<std::int64_t>(options_.max_bytes / kPageBytes, 1));
  return run(limit.c_str());
}

SqliteFile::~SqliteFile() {
  const int code = sqlite3_close_v2(handle_);
  if (code != SQLITE_OK) log::warning("registry {}: closing it: {}", path_, sqlite3_errstr(code));
}

Result<SqliteRows> SqliteFile::query(const char* sql, std::initializer_list<SqliteValue> values) {
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(handle_, sql, -1, &statement, nullptr);
  if (code != SQLITE_OK) return failure(code);
  SqliteRows rows(*this, statement);
  int index = 0;
  for (const SqliteValue& value : values) {
    ++index;
    if (const auto* const number = std::get_if<std::int64_t>(&value)) {
      code = sqlite3_bind_int64(statement, index, *number);
    } else if (const auto* const text = std::get_if<std::string_view>(&value)) {
      // The pointer is never null, which would bind SQL's NULL.
      code = sqlite3_bind_text(statement, index, text->empty() ? "" : text->data(),
                               static_cast<int>(text->size()), SQLITE_STATIC);
    } else {
      code = sqlite3_bind_null(statement, index);
    }
    if (code != SQLITE_OK) return failure(code);
  }
  return rows;
}

Status SqliteFile::run(const char* sql, std::initializer_list<SqliteValue> values) {
  TANDEM_ASSIGN(SqliteRows rows, query(sql, values));
  for (;;) {
    TANDEM_ASSIGN(const bool more, rows.next());
    if (!more) return {};
  }
}

std::int64_t SqliteFile::changed_rows() const {
  return sqlite3_changes64(handle_);
}

std::int64_t SqliteFile::last_row_id() const {
  return sqlite3_last_insert_rowid(handle_);
}

Status SqliteFile::failure(int code) const {
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return error(StatusCode::unavailable,
                   "registry {}: another process has been writing to it for {} ms; try again",
                   path_, options_.busy_timeout.count());
    case SQLITE_FULL:
      return error(StatusCode::resource_exhausted,
                   "registry {}: its disk is full, or it has reached its {} MB; make room, or "
                   "remove adapters",
                   path_, options_.max_bytes >> 20);
    case SQLITE_NOTADB:
      return error(StatusCode::internal,
                   "registry {}: it is not an SQLite database, or its first page is damaged; name "
                   "another file, or restore it from a copy",
                   path_);
    case SQLITE_CORRUPT:
      return error(StatusCode::internal,
                   "registry {}: the file is damaged ({}); restore it from a copy, or move it away "
                   "and add the adapters again",
                   path_, sqlite3_errmsg(handle_));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      return error(StatusCode::permission_denied,
                   "registry {}: {}; this process's user must be allowed to write the file and "
                   "its folder",
                   path_, sqlite3_errmsg(handle_));
    case SQLITE_NOMEM:
      return error(StatusCode::resource_exhausted, "registry {}: no memory", path_);
    default:
      return error(StatusCode::internal, "registry {}: {} (SQLite's code {})", path_,
                   sqlite3_errmsg(handle_), code);
  }
}

Result<SqliteTransaction> SqliteTransaction::begin(SqliteFile& file, Kind kind) {
  TANDEM_TRY(file.run(kind == Kind::write ? "BEGIN IMMEDIATE" : "BEGIN"));
  return SqliteTransaction(file);
}

SqliteTransaction::SqliteTransaction(SqliteTransaction&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)) {}

SqliteTransaction::~SqliteTransaction() {
  if (file_ == nullptr) return;
  const Status status = file_->run("ROLLBACK");
  // Some failures have rolled back already.
  if (!status) log::debug("{}", status.message());
}

Status SqliteTransaction::commit() {
  TANDEM_TRY(file_->run("COMMIT"));
  file_ = nullptr;
  return {};
}

}  // namespace tandem
