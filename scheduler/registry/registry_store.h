// What the registry is kept in: keys in order, each with a value, changed together or not at all,
// with leases that lapse and a record of what has changed. SQLite's file for one host, etcd for
// many.
//
// Keys are of printable ASCII. A revision is a number that grows with every change of the store;
// a value's revision is that of its last change.
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
  std::int64_t lease = 0;  // with which it goes; 0: it stays
};

struct StoreRead {
  std::vector<StoredValue> values;  // by key
  std::int64_t revision = 0;        // that all of them are of
};

// A change of several keys that happens if every expectation holds.
struct StoreWrite {
  struct Expectation {
    std::string key;
    std::int64_t revision = 0;  // 0: there is no such key
  };
  struct Put {
    std::string key;
    std::string value;
    std::int64_t lease = 0;  // with which it goes; 0: it stays
  };
  std::vector<Expectation> expected;
  std::vector<Put> puts;
  std::vector<std::string> removals;  // keys that are not there are no mistake
};

struct StoreChange {
  std::string key;
  std::optional<std::string> value;  // none: removed, or its lease has ended
};

struct StoreNews {
  std::vector<StoreChange> changes;  // in their order
  std::int64_t revision = 0;         // up to which they are told
  // What happened since then is no longer known, or the store is another one: read it all again.
  bool lost = false;
};

// Thread-safe. A call returns within the store's own deadlines, watch() a little after its
// patience at the latest. Failures beside those said below: unavailable (nobody answers, or others
// write for too long), resource_exhausted (the disk is full), permission_denied, internal
// (damaged).
class RegistryStore {
 public:
  virtual ~RegistryStore() = default;

  // All keys that begin so, as of one revision.
  virtual Result<StoreRead> read(std::string_view prefix) = 0;
  virtual Result<std::optional<StoredValue>> find(std::string_view key) = 0;
  // False: an expectation did not hold, and nothing is written. True may also have been true
  // already: after a broken connection etcd is asked again, and then finds what it wrote itself,
  // so that false may come of a write that happened. not_found: a lease has ended.
  virtual Result<bool> write(const StoreWrite& write) = 0;

  // A lease lapses `ttl` after it was granted or kept last, by the store's own clock.
  virtual Result<std::int64_t> grant_lease(std::chrono::seconds ttl) = 0;
  virtual Status keep_lease(std::int64_t lease) = 0;  // not_found: it has ended
  // Removes what was put with it. Fine when it has ended already.
  virtual Status end_lease(std::int64_t lease) = 0;

  // Waits for changes after the revision `since`; none when there are none for so long.
  virtual Result<StoreNews> watch(std::int64_t since, std::chrono::milliseconds patience) = 0;
};

// The first key behind all those that begin with `prefix`.
std::string end_of_prefix(std::string_view prefix);

}  // namespace tandem
