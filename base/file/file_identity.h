// Which file it is, and when it was last changed: whether what was read of it once is still what it
// holds, told without reading it again.
//
// The kernel sets ctime at every change to a file's bytes, name or rights, before the change is
// made, and nobody can set it back (as one can mtime). So equal identities before and after mean
// equal contents, but for these cases, which vouches() leaves out or which nobody meets with an
// adapter:
//   - The clock behind ctime moves in steps, of some milliseconds: a change just after a reading
//     may leave the same ctime as one just before it. And one call that writes much sets it once,
//     at its beginning. So a file vouches for itself only when its ctime was old already when it
//     was looked at, before the first byte was read: then every change since is a later ctime.
//   - On file systems of other machines, and on those that a process serves, what is told of a file
//     may be older than its bytes. Only local file systems of the kernel's are trusted.
//   - Who maps a file to write to it, writes before the first reading and goes on after it, may
//     change bytes without a change of ctime. Who sets the machine's clock back to the very
//     nanosecond, or writes to the disk below the file system, as well. Those that save adapters
//     write new files; those that may do the rest may do worse.
#pragma once

#include <chrono>
#include <cstdint>

namespace tandem {

struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;  // since 1970, as the file system tells them
  std::int64_t ctime_ns = 0;
  bool is_local = false;  // on a file system whose times can be relied on

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;

  static constexpr std::chrono::nanoseconds kSettled = std::chrono::seconds(2);

  // Whether the same identity, found later, will mean the same contents; `now_ns` is when it was
  // asked for, or earlier.
  bool vouches(std::int64_t now_ns) const {
    return is_local && ctime_ns <= now_ns - kSettled.count();
  }
};

// The clock that file systems take their times from.
inline std::int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace tandem
