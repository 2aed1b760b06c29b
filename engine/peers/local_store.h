// Adapters that came from other engines, kept in a folder of this machine's: one folder for each,
// named by its digest, of a bounded size together.
//
// What is here is proven by nobody: whoever loads it compares the digest, and drops what is not
// what its name says. A folder has its name only when it is whole and on the disk; what a crash
// leaves behind has another name, and goes at the next start.
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

#include "base/folder.h"
#include "base/status.h"

namespace tandem {

class LocalStore;

// A folder that is being filled, by one thread; gone again unless LocalStore::keep() takes it.
class IncomingAdapter {
 public:
  ~IncomingAdapter();
  IncomingAdapter(const IncomingAdapter&) = delete;
  IncomingAdapter& operator=(const IncomingAdapter&) = delete;

  // Opens a file of this name in it, and ends the one before.
  Status begin_file(const std::string& name);
  // Refuses what goes beyond the room that was asked for.
  Status append(std::string_view bytes);
  // Where it is as long as it is here.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  friend class LocalStore;
  IncomingAdapter(LocalStore& store, std::filesystem::path folder, Folder opened,
                  std::uint64_t room);
  Status end_file();  // all of it is on the disk

  LocalStore& store_;
  std::filesystem::path folder_;  // empty: kept
  const Folder opened_;           // that is written into, whatever takes its place
  const std::uint64_t room_;
  std::uint64_t written_ = 0;
  int descriptor_ = -1;
};

// Thread-safe. The one least recently used goes when room is wanted, but for those in use.
class LocalStore {
 public:
  // Makes the folder if there is none. already_exists: another process has it; each needs its own.
  // What is in it beyond `max_bytes` goes; files that are not this store's stay, and do not count.
  static Result<std::unique_ptr<LocalStore>> open(const std::filesystem::path& folder,
                                                  std::uint64_t max_bytes);
  ~LocalStore();
  LocalStore(const LocalStore&) = delete;
  LocalStore& operator=(const LocalStore&) = delete;

  struct Kept {
    std::filesystem::path folder;      // without links, for Folder::open()
    std::shared_ptr<const void> hold;  // it stays as long as this does
  };
  // Used last from now on. None: it is not here.
  std::optional<Kept> find(const std::string& digest);
  // It stays for as long as this user lives, too. False: it is not here, and nothing happens.
  bool used_by(const std::string& digest, std::weak_ptr<const void> user);

  // Makes room. resource_exhausted: all of the store would not do, or others use it. unavailable,
  // as of keep() and of IncomingAdapter: the disk failed, or is full; the log says where.
  Result<std::unique_ptr<IncomingAdapter>> begin(std::uint64_t bytes);
  // `digest`: 32 hexadecimal digits. In the place of what may have that name.
  Result<Kept> keep(std::unique_ptr<IncomingAdapter> incoming, const std::string& digest);
  void drop(const std::string& digest);

  std::uint64_t used_bytes() const;  // with what is on its way
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
  bool make_room(std::uint64_t bytes);  // all below: mutex_ held
  void remove(Entries::iterator entry);
  Kept use(Entries::iterator entry);
  void give_back(std::uint64_t bytes);  // takes mutex_

  const std::filesystem::path folder_;
  const std::uint64_t max_bytes_;
  const int lock_;            // descriptor of the file that is locked
  mutable std::mutex mutex_;  // guards these
  Entries entries_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t uses_ = 0;
};

}  // namespace tandem
