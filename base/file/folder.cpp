#include "base/file/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace tandem {
namespace {

constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

Status is_through_link() {
  return error(StatusCode::permission_denied,
               "the folder's path leads through a link or '..', which is not followed: name the "
               "folder by the path that it really has");
}

bool is_link(int folder, const char* name) {
  struct stat info {};
  return ::fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

}  // namespace

// Opens step by step, which works on every kernel; openat2() may be missing or forbidden.
Result<Folder> Folder::open(const std::filesystem::path& path) {
  Folder at(::open(path.is_absolute() ? "/" : ".", kFolderFlags));
  if (at.descriptor_ < 0) return errno_status("cannot open the folder", errno);
  for (const std::filesystem::path& part : path.relative_path()) {
    if (part.empty() || part == ".") continue;  // a path may end with a slash
    if (part == "..") return is_through_link();
    Folder next(::openat(at.descriptor_, part.c_str(), kFolderFlags));
    if (next.descriptor_ < 0) {
      const int failure = errno;
      // O_NOFOLLOW and O_DIRECTORY together report a link as "not a folder".
      if (failure == ENOTDIR && is_link(at.descriptor_, part.c_str())) return is_through_link();
      return errno_status("cannot open the folder", failure);
    }
    at = std::move(next);
  }
  return at;
}

Folder::Folder(Folder&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Folder& Folder::operator=(Folder&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Folder::~Folder() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

// The kernel's own name for an open folder leads to that folder, wherever it is by now.
Result<File> Folder::open_file(const std::string& name, const LinkRule& links) const {
  return File::open_in(fmt::format("/proc/self/fd/{}", descriptor_), name, links);
}

bool Folder::holds(const std::string& name) const {
  struct stat info {};
  return ::fstatat(descriptor_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<std::filesystem::path> resolve_links(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::path real =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path, failure), failure);
  if (failure) return errno_status(path.string(), failure.value());
  return real;
}

bool lies_under(const std::filesystem::path& path, const std::filesystem::path& root) {
  return !root.empty() &&
         std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

}  // namespace tandem
