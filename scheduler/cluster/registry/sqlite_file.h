// An SQLite database in a file: wraps the C handles and turns failures into messages with the
// file's name and a remedy.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tandem {

struct SqliteOptions {
  std::chrono::milliseconds busy_timeout{5000};  // waiting time for other processes' writes
  std::int64_t max_bytes = std::int64_t{1} << 30;
};

class SqliteFile;

// The rows of one statement, in order. Destroy it before its file.
class SqliteRows {
 public:
  // False: there are no more rows.
  Result<bool> next();
  // A column of the current row, from 0. A value of another type is returned as 0 or empty.
  std::int64_t number(int column) const;
  std::string text(int column) const;
  bool is_null(int column) const;

 private:
  friend class SqliteFile;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  SqliteRows(const SqliteFile& file, sqlite3_stmt* statement) : file_(&file), rows_(statement) {}

  const SqliteFile* file_;
  std::unique_ptr<sqlite3_stmt, Finalize> rows_;
};

// A parameter of a statement; monostate is SQL's NULL.
using SqliteValue = std::variant<std::monostate, std::int64_t, std::string_view>;

// For one thread at a time.
class SqliteFile {
 public:
  // Creates the file with mode 0600 if there is none. Uses write-ahead logging (WAL), so that
  // readers and the one writer do not wait for each other; each commit is flushed to disk.
  static Result<std::unique_ptr<SqliteFile>> open(const std::string& path,
                                                  const SqliteOptions& options);
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  const std::string& path() const { return path_; }
  // The texts in `values` must live until the last row is read.
  Result<SqliteRows> query(const char* sql, std::initializer_list<SqliteValue> values = {});
  // The same for statements whose rows are not needed.
  Status run(const char* sql, std::initializer_list<SqliteValue> values = {});
  std::int64_t changed_rows() const;  // by the last run()
  std::int64_t last_row_id() const;

  Status failure(int code) const;

 private:
  SqliteFile(std::string path, sqlite3* handle, const SqliteOptions& options)
      : path_(std::move(path)), handle_(handle), options_(options) {}
  Status prepare_to_write();

  const std::string path_;
  sqlite3* const handle_;
  const SqliteOptions options_;
};

// Rolls back unless it was committed.
class SqliteTransaction {
 public:
  enum class Kind { read, write };
  static Result<SqliteTransaction> begin(SqliteFile& file, Kind kind);
  SqliteTransaction(SqliteTransaction&& other) noexcept;
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  ~SqliteTransaction();
  Status commit();

 private:
  explicit SqliteTransaction(SqliteFile& file) : file_(&file) {}
  SqliteFile* file_;
};

}  // namespace tandem
