#include "engine/peers/local_store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <system_error>
#include <utility>

#include "base/limits/bytes_text.h"
#include "base/log/log.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIncoming = ".incoming-";
constexpr const char* kLockName = ".lock";
constexpr std::size_t kDigestDigits = 32;
constexpr mode_t kFileMode = 0600;

bool is_digest_name(std::string_view name) {
  return name.size() == kDigestDigits && std::ranges::all_of(name, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// The path goes to the log only: clients see the status, must not learn this machine's paths, and
// did not cause the error.
Status cannot_write(std::string_view what, const fs::path& path, const std::string& reason) {
  log::warning("adapter store: {} {}: {}", what, path.string(), reason);
  return error(StatusCode::unavailable,
               "the adapter store of this server cannot be written ({}); its log says more",
               reason);
}

Status cannot_write(std::string_view what, const fs::path& path, int errno_value) {
  return cannot_write(what, path, std::generic_category().message(errno_value));
}

Status sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return cannot_write("cannot open", folder, errno);
  const int failed = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (failed == 0) return {};
  return cannot_write("fsync of", folder, failed);
}

std::uint64_t bytes_in(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code failure;
  for (fs::directory_iterator each(folder, failure), end; !failure && each != end;
       each.increment(failure)) {
    std::error_code unknown;
    const std::uintmax_t size = each->file_size(unknown);
    if (!unknown) bytes += size;
  }
  return bytes;
}

}  // namespace

IncomingAdapter::IncomingAdapter(LocalStore& store, fs::path folder, Folder opened,
                                 std::uint64_t room)
    : store_(store), folder_(std::move(folder)), opened_(std::move(opened)), room_(room) {}

IncomingAdapter::~IncomingAdapter() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (folder_.empty()) return;
  try {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  } catch (const std::exception&) {  // no memory: the next start tries again
  }
  store_.give_back(room_);
}

Status IncomingAdapter::begin_file(const std::string& name) {
  TANDEM_TRY(end_file());
  descriptor_ = ::openat(opened_.descriptor(), name.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
  if (descriptor_ >= 0) return {};
  return cannot_write("cannot make", folder_ / name, errno);
}

Status IncomingAdapter::append(std::string_view bytes) {
  if (bytes.size() > room_ - written_) {
    return invalid("there are more than the {} bytes that were announced", room_);
  }
  written_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_write("cannot write into", folder_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Status IncomingAdapter::end_file() {
  if (descriptor_ < 0) return {};
  const int failed = ::fsync(descriptor_) == 0 ? 0 : errno;
  ::close(std::exchange(descriptor_, -1));
  if (failed == 0) return {};
  return cannot_write("fsync of a file in", folder_, failed);
}

LocalStore::LocalStore(fs::path folder, std::uint64_t max_bytes, int lock)
    : folder_(std::move(folder)), max_bytes_(max_bytes), lock_(lock) {}

LocalStore::~LocalStore() {
  ::close(lock_);
}

Result<std::unique_ptr<LocalStore>> LocalStore::open(const fs::path& folder,
                                                     std::uint64_t max_bytes) {
  std::error_code failure;
  const bool is_new = fs::create_directories(folder, failure);
  if (is_new) fs::permissions(folder, fs::perms::owner_all, failure);
  const fs::path real = failure ? folder : fs::canonical(folder, failure);
  if (failure) return errno_status(folder.string(), failure.value());
  const fs::path lock_file = real / kLockName;
  const int lock = ::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kFileMode);
  if (lock < 0) return errno_status(fmt::format("cannot make {}", lock_file.string()), errno);
  std::unique_ptr<LocalStore> store(new LocalStore(real, max_bytes, lock));
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return errno_status(fmt::format("flock of {}", real.string()), errno);
    return error(StatusCode::already_exists,
                 "{} is used by another server; give each a folder of its own", real.string());
  }
  TANDEM_TRY(store->scan());
  return store;
}

// The order is taken from the folders' modification times, which find() sets, so that the order of
// use outlives the process.
Status LocalStore::scan() {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code failure;
  for (fs::directory_iterator each(folder_, failure), end; !failure && each != end;
       each.increment(failure)) {
    const std::string name = each->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(kIncoming)) {
      fs::remove_all(each->path(), ignored);
    } else if (is_digest_name(name) &&
               each->symlink_status(ignored).type() == fs::file_type::directory) {
      found.emplace_back(each->last_write_time(ignored), name);
    }
  }
  if (failure) return errno_status(folder_.string(), failure.value());
  std::ranges::sort(found);
  for (const auto& [time, name] : found) {
    Entry& entry = entries_[name];
    entry.bytes = bytes_in(folder_ / name);
    entry.last_use = ++uses_;
    used_bytes_ += entry.bytes;
  }
  make_room(0);
  return {};
}

std::optional<LocalStore::Kept> LocalStore::find(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(digest);
  if (found == entries_.end()) return std::nullopt;
  std::error_code ignored;
  if (fs::symlink_status(folder_ / digest, ignored).type() != fs::file_type::directory) {
    // The folder was removed, or replaced by a link.
    used_bytes_ -= found->second.bytes;
    entries_.erase(found);
    return std::nullopt;
  }
  return use(found);
}

LocalStore::Kept LocalStore::use(Entries::iterator entry) {
  entry->second.last_use = ++uses_;
  const fs::path folder = folder_ / entry->first;
  std::error_code ignored;  // affects only the order after the next start
  fs::last_write_time(folder, fs::file_time_type::clock::now(), ignored);
  auto hold = std::make_shared<const bool>(true);
  std::erase_if(entry->second.users, [](const auto& user) { return user.expired(); });
  entry->second.users.emplace_back(hold);
  return {folder, std::move(hold)};
}

bool LocalStore::used_by(const std::string& digest, std::weak_ptr<const void> user) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(digest);
  if (found == entries_.end()) return false;
  found->second.users.push_back(std::move(user));
  return true;
}

Result<std::unique_ptr<IncomingAdapter>> LocalStore::begin(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > max_bytes_) {
    return error(StatusCode::resource_exhausted,
                 "its files take {}, more than the {} of the whole store; raise "
                 "adapter_store_gb",
                 size_text(bytes), size_text(max_bytes_));
  }
  if (!make_room(bytes)) {
    return error(StatusCode::resource_exhausted,
                 "the store has no room for {}: what is in it is in use; raise "
                 "adapter_store_gb",
                 size_text(bytes));
  }
  std::string path = (folder_ / kIncoming).string() + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return cannot_write("cannot make", path, errno);
  Result<Folder> opened = Folder::open(path);
  if (!opened) return cannot_write("cannot open", path, opened.status().message());
  std::unique_ptr<IncomingAdapter> incoming(
      new IncomingAdapter(*this, path, *std::move(opened), bytes));
  used_bytes_ += bytes;
  return incoming;
}

// Removes the least recently used first.
bool LocalStore::make_room(std::uint64_t bytes) {
  while (used_bytes_ > max_bytes_ - bytes) {
    auto victim = entries_.end();
    for (auto each = entries_.begin(); each != entries_.end(); ++each) {
      const bool in_use =
          std::ranges::any_of(each->second.users, [](const auto& user) { return !user.expired(); });
      if (in_use) continue;
      if (victim == entries_.end() || each->second.last_use < victim->second.last_use) {
        victim = each;
      }
    }
    if (victim == entries_.end()) return false;
    log::info("adapter store: {} is removed to make room", victim->first);
    remove(victim);
  }
  return true;
}

// The folder is renamed first, so that a partly deleted adapter is never found under its digest. If
// the removal fails, the next start repeats it.
void LocalStore::remove(Entries::iterator entry) {
  std::error_code failure;
  const fs::path folder = folder_ / entry->first;
  const fs::path leaving = folder_ / fmt::format("{}{}-{}", kIncoming, entry->first, ++uses_);
  fs::rename(folder, leaving, failure);
  if (!failure) fs::remove_all(leaving, failure);
  if (failure) {
    log::warning("adapter store: {} cannot be removed: {}", folder.string(), failure.message());
  }
  used_bytes_ -= entry->second.bytes;
  entries_.erase(entry);
}

Result<LocalStore::Kept> LocalStore::keep(std::unique_ptr<IncomingAdapter> incoming,
                                          const std::string& digest) {
  TANDEM_TRY(incoming->end_file());
  TANDEM_TRY(sync_folder(incoming->folder_));
  const std::lock_guard lock(mutex_);
  if (const auto before = entries_.find(digest); before != entries_.end()) remove(before);
  const fs::path folder = folder_ / digest;
  const auto entry = entries_.try_emplace(digest).first;
  if (::rename(incoming->folder_.c_str(), folder.c_str()) != 0) {
    const int failure = errno;
    entries_.erase(entry);
    return cannot_write("cannot rename a folder to", folder, failure);
  }
  incoming->folder_.clear();
  entry->second.bytes = incoming->written_;
  used_bytes_ -= incoming->room_ - incoming->written_;
  TANDEM_TRY(sync_folder(folder_));
  return use(entry);
}

void LocalStore::drop(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(digest); found != entries_.end()) remove(found);
}

void LocalStore::give_back(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= bytes;
}

std::uint64_t LocalStore::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

}  // namespace tandem
