// Identifies a file and its last change, so that a program can tell without reading the file again
// whether contents that it read earlier are still current.
//
// The kernel sets ctime at every change to a file's bytes, name or rights, before the change is
// made, and no program can set it back (unlike mtime). So equal identities before and after mean
// equal contents, with these exceptions, which vouches() excludes or which do not occur with
// adapters:
//   - The clock behind ctime advances in steps of some milliseconds: a change just after a reading
//     may leave the same ctime as one just before it. And one call that writes much sets it once,
//     at its beginning. So vouches() requires that ctime was already old when it was read, before
//     the first byte was read: then every later change has a later ctime.
//   - File systems of other machines, and those that a process serves, may report times that are
//     older than the bytes. Only local file systems of the kernel are trusted.
//   - A program that maps a file, writes before the first reading and continues after it may
//     change bytes without a change of ctime. So may one that sets the machine's clock back to the
//     exact nanosecond, or writes to the disk below the file system. Programs that save adapters
//     write new files; whoever can do the rest can do worse.
#pragma once

#include <chrono>
#include <cstdint>

namespace tandem {

struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;  // since 1970, as the file system reports it
  std::int64_t ctime_ns = 0;
  bool is_local = false;  // true: on a file system with reliable times

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;

  static constexpr std::chrono::nanoseconds kSettled = std::chrono::seconds(2);

  // True if finding the same identity later will mean the same contents. `now_ns` is the time at
  // which the identity was read, or earlier.
  bool vouches(std::int64_t now_ns) const {
    return is_local && ctime_ns <= now_ns - kSettled.count();
  }
};

// The clock from which file systems take their times.
inline std::int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace tandem
