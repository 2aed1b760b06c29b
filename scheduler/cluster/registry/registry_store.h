// The registry's storage: ordered keys with values, changed together or not at all, with leases
// that expire and a record of changes. An SQLite file for one host, etcd for several.
//
// Keys are printable ASCII. A revision is a number that grows with every change of the store; a
// value's revision is that of its last change.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

struct StoredValue {
  std::string key;
  std::string value;
  std::int64_t revision = 0;
  std::int64_t lease = 0;  // the value is removed with it; 0: it stays
};

struct StoreRead {
  std::vector<StoredValue> values;  // by key
  std::int64_t revision = 0;        // the common revision of all values
};

// A change of several keys, which is made only if every expectation holds.
struct StoreWrite {
  struct Expectation {
    std::string key;
    std::int64_t revision = 0;  // 0: there is no such key
  };
  struct Put {
    std::string key;
    std::string value;
    std::int64_t lease = 0;  // the value is removed with it; 0: it stays
  };
  std::vector<Expectation> expected;
  std::vector<Put> puts;
  std::vector<std::string> removals;  // missing keys are no error
};

struct StoreChange {
  std::string key;
  std::optional<std::string> value;  // none: removed, or its lease has expired
};

struct StoreNews {
  std::vector<StoreChange> changes;  // in order
  std::int64_t revision = 0;         // the changes are complete up to it
  // Changes since `since` are no longer available, or it is another store: read everything again.
  bool lost = false;
};

// Thread-safe. A call returns within the store's own deadlines, and watch() shortly after its
// patience at the latest. Failures besides those named below: unavailable (no answer, or others
// write for too long), resource_exhausted (the disk is full), permission_denied, internal
// (damaged).
class RegistryStore {
 public:
  virtual ~RegistryStore() = default;

  // All keys with this prefix, as of one revision.
  virtual Result<StoreRead> read(std::string_view prefix) = 0;
  virtual Result<std::optional<StoredValue>> find(std::string_view key) = 0;
  // False: an expectation did not hold and nothing is written. After a broken connection the write
  // is sent to etcd again and may then find its own first attempt, so false may be returned
  // although the write was made. not_found: a lease has expired.
  virtual Result<bool> write(const StoreWrite& write) = 0;

  // A lease expires `ttl` after it was granted or last kept, by the store's own clock.
  virtual Result<std::int64_t> grant_lease(std::chrono::seconds ttl) = 0;
  virtual Status keep_lease(std::int64_t lease) = 0;  // not_found: it has expired
  // Removes the values that were put with it. Succeeds also if it has expired.
  virtual Status end_lease(std::int64_t lease) = 0;

  // Waits up to `patience` for changes after the revision `since`; returns none if there are none.
  virtual Result<StoreNews> watch(std::int64_t since, std::chrono::milliseconds patience) = 0;
};

// The first key after all keys that begin with `prefix`.
std::string end_of_prefix(std::string_view prefix);

}  // namespace tandem
