// Adapters that came from other engines, kept in a folder on this machine: one subfolder per
// adapter, named by its digest, with a limit on the total size.
//
// The store does not verify contents: whoever loads an adapter compares the digest, and drops a
// folder whose content does not match its name. A folder gets its name only when it is complete and
// on the disk; folders left by a crash have other names and are removed at the next start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/folder.h"
#include "base/status.h"

namespace tandem {

class LocalStore;

// A folder that one thread is filling. It is removed on destruction unless LocalStore::keep() takes
// it.
class IncomingAdapter {
 public:
  ~IncomingAdapter();
  IncomingAdapter(const IncomingAdapter&) = delete;
  IncomingAdapter& operator=(const IncomingAdapter&) = delete;

  // Opens a file of this name in the folder, after finishing the previous one.
  Status begin_file(const std::string& name);
  // Refuses bytes beyond the room that was requested.
  Status append(std::string_view bytes);
  // The folder's path for the life of this object.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  friend class LocalStore;
  IncomingAdapter(LocalStore& store, std::filesystem::path folder, Folder opened,
                  std::uint64_t room);
  Status end_file();  // all of the file is on the disk after it

  LocalStore& store_;
  std::filesystem::path folder_;  // empty after LocalStore::keep()
  const Folder opened_;           // the folder written into, even if its path is replaced
  const std::uint64_t room_;
  std::uint64_t written_ = 0;
  int descriptor_ = -1;
};

// Thread-safe. If room is needed, the least recently used adapter that is not in use is removed.
class LocalStore {
 public:
  // Opens the folder and creates it if it does not exist. already_exists: another process has it
  // open; each process needs its own. Adapters in it beyond `max_bytes` are removed; files that are
  // not this store's are kept and not counted.
  static Result<std::unique_ptr<LocalStore>> open(const std::filesystem::path& folder,
                                                  std::uint64_t max_bytes);
  ~LocalStore();
  LocalStore(const LocalStore&) = delete;
  LocalStore& operator=(const LocalStore&) = delete;

  struct Kept {
    std::filesystem::path folder;      // without links, for Folder::open()
    std::shared_ptr<const void> hold;  // keeps the adapter in the store as long as this lives
  };
  // Marks the adapter as most recently used. Nothing: it is not in the store.
  std::optional<Kept> find(const std::string& digest);
  // Keeps the adapter also for as long as `user` lives. False, without effect: it is not in the
  // store.
  bool used_by(const std::string& digest, std::weak_ptr<const void> user);

  // Makes room. resource_exhausted: the whole store would not suffice, or the rest of it is in use.
  // unavailable (also from keep() and IncomingAdapter): the disk failed or is full; the log has the
  // path.
  Result<std::unique_ptr<IncomingAdapter>> begin(std::uint64_t bytes);
  // Keeps the folder under `digest`, 32 hexadecimal digits, and replaces an adapter of that name.
  Result<Kept> keep(std::unique_ptr<IncomingAdapter> incoming, const std::string& digest);
  void drop(const std::string& digest);

  std::uint64_t used_bytes() const;  // including incoming adapters
  std::uint64_t max_bytes() const { return max_bytes_; }

 private:
  friend class IncomingAdapter;
  struct Entry {
    std::uint64_t bytes = 0;
    std::uint64_t last_use = 0;
    std::vector<std::weak_ptr<const void>> users;
  };
  using Entries = std::map<std::string, Entry>;  // by digest

  LocalStore(std::filesystem::path folder, std::uint64_t max_bytes, int lock);
  Status scan();
  bool make_room(std::uint64_t bytes);  // this one and the two below require mutex_ held
  void remove(Entries::iterator entry);
  Kept use(Entries::iterator entry);
  void give_back(std::uint64_t bytes);  // locks mutex_ itself

  const std::filesystem::path folder_;
  const std::uint64_t max_bytes_;
  const int lock_;            // descriptor of the lock file
  mutable std::mutex mutex_;  // guards the members below
  Entries entries_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t uses_ = 0;
};

}  // namespace tandem
