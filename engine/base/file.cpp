#include "engine/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tandem {

File::File(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<File> File::open(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return errno_status(fmt::format("cannot open {}", path.string()), errno);
  File file(descriptor, path.string());
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) {
    return errno_status(fmt::format("cannot stat {}", path.string()), errno);
  }
  if (!S_ISREG(info.st_mode)) return invalid("{} is not a regular file", path.string());
  file.size_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Status File::read(std::uint64_t offset, void* target, std::size_t count) const {
  auto* to = static_cast<std::byte*>(target);
  while (count > 0) {
    constexpr std::size_t kMaxCall = std::size_t{1} << 30;  // Linux reads less than 2 GiB a call
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

Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  TANDEM_ASSIGN(const File file, File::open(path));
  if (file.size() > max_bytes) {
    return invalid("{} has {} bytes, more than the {} allowed", path.string(), file.size(),
                   max_bytes);
  }
  std::string text(file.size(), '\0');
  TANDEM_TRY(file.read(0, text.data(), text.size()));
  return text;
}

}  // namespace tandem
