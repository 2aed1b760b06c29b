#include "cpu_lora/placement/detached.h"

#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <utility>

namespace tandem {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<DetachedProcess> DetachedProcess::start(const std::vector<std::string>& arguments,
                                               const std::vector<std::string>& environment) {
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return errno_status("readlink of /proc/self/exe", failure.value());
  const int complaints = ::memfd_create("tandem-complaints", MFD_CLOEXEC);
  if (complaints < 0) return errno_status("memfd_create", errno);

  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, complaints, STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  std::vector<std::string> words = {program.filename().string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment;
  pid_t pid = -1;
  const int refused = ::posix_spawn(&pid, program.c_str(), &files, &attributes,
                                    pointers(words).data(), pointers(variables).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (refused != 0) {
    ::close(complaints);
    return errno_status("posix_spawn of " + program.string(), refused);
  }
  return DetachedProcess(pid, complaints);
}

DetachedProcess::DetachedProcess(DetachedProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      complaints_(std::exchange(other.complaints_, -1)),
      wait_status_(other.wait_status_),
      ended_(other.ended_) {}

DetachedProcess::~DetachedProcess() {
  if (complaints_ >= 0) ::close(complaints_);
}

bool DetachedProcess::has_ended() {
  if (!ended_ && ::waitpid(pid_, &wait_status_, WNOHANG) == pid_) ended_ = true;
  return ended_;
}

std::string DetachedProcess::complaints() const {
  std::array<char, 4096> text{};
  const ssize_t count = ::pread(complaints_, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

int DetachedProcess::exit_status() const {
  return ended_ && WIFEXITED(wait_status_) ? WEXITSTATUS(wait_status_) : -1;
}

std::string DetachedProcess::last_words() const {
  std::string text = WIFSIGNALED(wait_status_)
                         ? fmt::format("signal {} ({})", WTERMSIG(wait_status_),
                                       ::strsignal(WTERMSIG(wait_status_)))
                         : fmt::format("exit status {}", WEXITSTATUS(wait_status_));
  std::string said = complaints();
  while (said.ends_with('\n')) said.pop_back();
  if (const std::size_t line = said.rfind('\n'); line != std::string::npos) said.erase(0, line + 1);
  if (!said.empty()) text += ": " + said;
  return text;
}

}  // namespace tandem
