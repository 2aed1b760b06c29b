#include "tests/tools/serve/private_shm.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace tandem {
namespace {

constexpr const char* kFolder = "/dev/shm";
constexpr const char* kFiller = "/dev/shm/filler-of-a-test";

void write_file(const char* path, std::string_view text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(fd, text.data(), text.size());
  ::close(fd);
}

}  // namespace

// Without root, mounting is possible in a new user namespace if the machine allows those.
std::string make_shm_private(std::size_t bytes) {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWNS | (user == 0 ? 0 : CLONE_NEWUSER)) != 0) {
    return fmt::format("unshare: {}", std::strerror(errno));
  }
  if (user != 0) {
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", fmt::format("{} {} 1", user, user));
    write_file("/proc/self/gid_map", fmt::format("{} {} 1", group, group));
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", kFolder, "tmpfs", MS_NOSUID | MS_NODEV,
              fmt::format("size={}", bytes).c_str()) != 0) {
    return fmt::format("mount: {}", std::strerror(errno));
  }
  return {};
}

FullShm::FullShm() : fd_(::open(kFiller, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {
  TANDEM_CHECK(fd_ >= 0, "{}: {}", kFiller, std::strerror(errno));
  const std::vector<char> some(256 << 10, 'x');
  for (ssize_t written; (written = ::write(fd_, some.data(), some.size())) > 0;) {
    bytes_ += static_cast<std::size_t>(written);
  }
}

FullShm::~FullShm() {
  ::unlink(kFiller);
  ::close(fd_);
}

}  // namespace tandem
