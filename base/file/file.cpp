#include "base/file/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/file/folder.h"
#include "base/limits/bytes_text.h"

namespace tandem {

File::File(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      path_(std::move(other.path_)),
      writing_(std::move(other.writing_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  std::swap(writing_, other.writing_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

namespace {

// Without O_NONBLOCK, opening a pipe without a writer would wait for ever.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

Status not_regular(std::string_view path) {
  return invalid("{} is not a regular file", path);
}

Status cannot_open(std::string_view path, int errno_value) {
  // The errors for sockets, and for devices without a driver.
  if (errno_value == ENXIO || errno_value == ENODEV) return not_regular(path);
  return errno_status(fmt::format("cannot open {}", path), errno_value);
}

// A folder that is opened only to open files in it. Move-only.
class FolderOfFile {
 public:
  explicit FolderOfFile(const std::filesystem::path& path)
      : descriptor_(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}
  FolderOfFile(const FolderOfFile&) = delete;
  FolderOfFile& operator=(const FolderOfFile&) = delete;
  ~FolderOfFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int descriptor() const { return descriptor_; }  // negative: errno says why

 private:
  int descriptor_;
};

// The current path of an open file or folder, as the kernel reports it. Empty: unknown.
std::filesystem::path place_of(int descriptor) {
  std::error_code ignored;
  return std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), ignored);
}

// The same error for everything outside, so that a client cannot find out what exists there.
Status leads_out(std::string_view name) {
  return error(
      StatusCode::permission_denied,
      "{} is a link that leads nowhere or out of the adapter's folder, as those of Hugging "
      "Face's cache do from snapshots/ to blobs/: copy the files, or start the server with "
      "--follow-links-outside to allow it",
      name);
}

// Checks the open descriptor, so that a later change of the link has no effect.
bool may_lead_to(int file, int folder, const LinkRule& links) {
  const std::filesystem::path place = place_of(file);
  return lies_under(place, place_of(folder)) ||
         std::ranges::any_of(links.roots,
                             [&](const auto& root) { return lies_under(place, root); });
}

}  // namespace

Result<File> File::checked(File file) {
  struct stat info {};
  if (::fstat(file.descriptor_, &info) != 0) {
    return errno_status(fmt::format("cannot stat {}", file.path_), errno);
  }
  if (!S_ISREG(info.st_mode)) return not_regular(file.path_);
  file.size_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Result<File> File::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), kReadFlags);
  if (descriptor < 0) return cannot_open(path.string(), errno);
  return checked(File(descriptor, path.string()));
}

Result<File> File::open_in(const std::filesystem::path& folder, const std::string& name,
                           const LinkRule& links) {
  const FolderOfFile opened(folder);
  if (opened.descriptor() < 0) return errno_status("cannot open the folder", errno);
  int descriptor = ::openat(opened.descriptor(), name.c_str(), kReadFlags | O_NOFOLLOW);
  const bool is_link = descriptor < 0 && errno == ELOOP;
  const bool is_judged = is_link && !links.anywhere;
  if (is_link) descriptor = ::openat(opened.descriptor(), name.c_str(), kReadFlags);
  if (descriptor < 0) {
    const bool tells = errno == EMFILE || errno == ENFILE || errno == ELOOP;
    return is_judged && !tells ? leads_out(name) : cannot_open(name, errno);
  }
  File file(descriptor, name);
  if (is_judged && !may_lead_to(descriptor, opened.descriptor(), links)) return leads_out(name);
  return checked(std::move(file));
}

namespace {

// The kernel's own file systems, by number (statfs(2)); their times come from this machine's clock.
bool is_local(std::uint64_t file_system) {
  constexpr std::array<std::uint64_t, 8> kLocal = {
      0xEF53,      // ext2, ext3, ext4
      0x58465342,  // xfs
      0x9123683E,  // btrfs
      0xF2F52010,  // f2fs
      0x2FC12FC1,  // zfs
      0xCA451A4E,  // bcachefs
      0x794C7630,  // overlayfs: containers
      0x01021994,  // tmpfs
  };
  return std::ranges::find(kLocal, file_system) != kLocal.end();
}

std::int64_t nanoseconds(const struct timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

Result<FileIdentity> File::identity() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) {
    return errno_status(fmt::format("cannot stat {}", path_), errno);
  }
  struct statfs system {};
  if (::fstatfs(descriptor_, &system) != 0) {
    return errno_status(fmt::format("cannot statfs {}", path_), errno);
  }
  return FileIdentity{info.st_dev,
                      info.st_ino,
                      static_cast<std::uint64_t>(info.st_size),
                      nanoseconds(info.st_mtim),
                      nanoseconds(info.st_ctim),
                      is_local(static_cast<std::uint32_t>(system.f_type))};
}

void File::follow(std::shared_ptr<const FileProgress> writing) {
  size_ = writing->size();
  writing_ = std::move(writing);
}

Status File::read(std::uint64_t offset, void* target, std::size_t count) const {
  if (writing_ != nullptr) TANDEM_TRY(writing_->wait_for(offset + count));
  auto* to = static_cast<std::byte*>(target);
  while (count > 0) {
    constexpr std::size_t kMaxCall = std::size_t{1} << 30;  // Linux reads less than 2 GiB per call
    const ssize_t got =
        ::pread(descriptor_, to, std::min(count, kMaxCall), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno_status(fmt::format("cannot read {}", path_), errno);
    }
    if (got == 0) return invalid("{} ends at byte {}: it was cut off", path_, offset);
    to += got;
    offset += static_cast<std::uint64_t>(got);
    count -= static_cast<std::size_t>(got);
  }
  return {};
}

namespace {

// A new file next to another one; deleted unless it has replaced that one. Move-only.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& beside) : path_(beside.string() + ".XXXXXX") {
    descriptor_ = ::mkostemp(path_.data(), O_CLOEXEC);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  Status fill(std::string_view text) {
    if (descriptor_ < 0) return errno_status(fmt::format("cannot make {}", path_), errno);
    while (!text.empty()) {
      const ssize_t count = ::write(descriptor_, text.data(), text.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return errno_status(fmt::format("cannot write {}", path_), errno);
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    return {};
  }
  // Call before set_mode, because fchown clears mode bits.
  Status set_owner(uid_t user, gid_t group) {
    // Only root may change the owner.
    if (::fchown(descriptor_, user, group) != 0 && errno != EPERM) {
      return errno_status(fmt::format("fchown of {}", path_), errno);
    }
    return {};
  }
  Status set_mode(mode_t mode) {
    if (::fchmod(descriptor_, mode & 07777) != 0) {
      return errno_status(fmt::format("fchmod of {}", path_), errno);
    }
    return {};
  }
  Status take_place_of(const std::filesystem::path& path) {
    if (::fsync(descriptor_) != 0) return errno_status(fmt::format("fsync of {}", path_), errno);
    if (::rename(path_.c_str(), path.c_str()) != 0) {
      return errno_status(fmt::format("cannot replace {}", path.string()), errno);
    }
    path_.clear();
    return {};
  }

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace

Status replace_file(const std::filesystem::path& path, std::string_view text,
                    std::optional<mode_t> new_mode) {
  std::error_code failure;
  std::filesystem::path real = std::filesystem::canonical(path, failure);
  struct stat like {};
  const bool is_new = failure == std::errc::no_such_file_or_directory && new_mode.has_value();
  if (is_new) {
    real = path;
  } else if (failure) {
    return errno_status(fmt::format("cannot open {}", path.string()), failure.value());
  } else if (::stat(real.c_str(), &like) != 0) {
    return errno_status(fmt::format("cannot stat {}", path.string()), errno);
  } else if (!S_ISREG(like.st_mode)) {
    return invalid("{} is not a regular file", path.string());
  }
  NewFile made(real);
  TANDEM_TRY(made.fill(text));
  if (!is_new) TANDEM_TRY(made.set_owner(like.st_uid, like.st_gid));
  TANDEM_TRY(made.set_mode(is_new ? *new_mode : like.st_mode));
  return made.take_place_of(real);
}

Result<std::string> read_text(const File& file, std::uint64_t max_bytes) {
  if (file.size() > max_bytes) {
    return invalid("{} has {}, more than the {} allowed", file.path(), size_text(file.size()),
                   size_text(max_bytes));
  }
  std::string text(file.size(), '\0');
  TANDEM_TRY(file.read(0, text.data(), text.size()));
  return text;
}

Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  TANDEM_ASSIGN(const File file, File::open(path));
  return read_text(file, max_bytes);
}

}  // namespace tandem
