#include "cpu_lora/worker_pool/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/log/log.h"

namespace tandem {
namespace {

// If a killed process has not ended after this time, it hangs in the kernel; init reaps it later.
constexpr int kReapMs = 10'000;
constexpr int kFirstOther = STDERR_FILENO + 1;

int pidfd_open(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

int pidfd_send_signal(int descriptor, int signal) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, descriptor, signal, nullptr, 0));
}

void close_from(unsigned first) {
  if (::syscall(SYS_close_range, first, ~0U, 0) == 0) return;
  // Kernels before 5.9 have no close_range().
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto end = static_cast<unsigned>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
  for (unsigned fd = first; fd < end; ++fd) ::close(static_cast<int>(fd));
}

// Everything that the child needs, prepared before vfork().
struct Launch {
  const char* program;
  char* const* arguments;
  char* const* environment;
  pid_t parent;
  int input;    // -1: none
  int failure;  // writing end of a pipe
};

[[noreturn]] void fail(int failure) {
  const int error = errno;
  (void)!::write(failure, &error, sizeof error);
  ::_exit(127);
}

// Code of the child until exec. The child shares its parent's memory, so it makes system calls
// only: no allocation, no lock, no return. Its signal handlers, mask and descriptors are its own
// already.
[[noreturn]] void become(const Launch& launch) {
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &by_default, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  int failure = launch.failure;
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) fail(failure);
  if (::getppid() != launch.parent) ::_exit(127);  // the parent died before prctl()
  ::setpgid(0, 0);
  const int input = launch.input >= 0 ? launch.input : ::open("/dev/null", O_RDONLY);
  if (input < 0 || ::dup2(input, STDIN_FILENO) < 0) fail(failure);
  if (failure != kFirstOther) {
    if (::dup2(failure, kFirstOther) < 0) fail(failure);
    failure = kFirstOther;
  }
  if (::fcntl(failure, F_SETFD, FD_CLOEXEC) != 0) fail(failure);
  close_from(kFirstOther + 1);
  ::execve(launch.program, launch.arguments, launch.environment);
  fail(failure);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

// Blocks all signals, because a handler that runs in the child would change the parent's memory.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const ChildProcessOptions& options) {
  const std::vector<char*> arguments = pointers(options.arguments);
  const std::vector<char*> environment = pointers(options.environment);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_status("pipe2", errno);
  const Launch launch{
      .program = options.program.empty() ? "/proc/self/exe" : options.program.c_str(),
      .arguments = arguments.data(),
      .environment = environment.data(),
      .parent = ::getpid(),
      .input = options.input,
      .failure = ends[1]};
  pid_t pid = -1;
  int fork_error = 0;
  {
    const AllSignalsBlocked blocked;
    pid = ::vfork();  // NOLINT: the child runs become() and nothing else
    if (pid == 0) become(launch);
    fork_error = errno;
  }
  ::close(ends[1]);
  int error = 0;
  ssize_t got = 0;
  if (pid > 0) {
    // read() returns when exec or the end of the child has closed the other end of the pipe.
    do got = ::read(ends[0], &error, sizeof error);
    while (got < 0 && errno == EINTR);
  }
  ::close(ends[0]);
  if (pid < 0) return errno_status("vfork", fork_error);
  ChildProcess child(pid, pidfd_open(pid));
  if (got == sizeof error) return errno_status("starting " + std::string(launch.program), error);
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      end_(std::move(other.end_)),
      exit_status_(other.exit_status_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  release();
  pid_ = std::exchange(other.pid_, 0);
  descriptor_ = std::exchange(other.descriptor_, -1);
  end_ = std::move(other.end_);
  exit_status_ = other.exit_status_;
  return *this;
}

ChildProcess::~ChildProcess() {
  release();
}

void ChildProcess::release() {
  if (pid_ == 0) return;
  kill(SIGKILL);
  for (int waited_ms = 0; !has_ended() && waited_ms < kReapMs; ++waited_ms) {
    // poll() returns at once when the child ends; without a descriptor the loop checks every
    // millisecond.
    pollfd event{.fd = descriptor_, .events = POLLIN, .revents = 0};
    ::poll(&event, 1, 1);
  }
  if (end_.empty()) log::error("process {} was killed and has not ended", pid_);
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  pid_ = 0;
}

void ChildProcess::kill(int signal) {
  // The child has not been reaped, so the pid is still its own.
  if (end_.empty()) ::kill(pid_, signal);
}

bool ChildProcess::has_ended() {
  if (!end_.empty()) return true;
  int status = 0;
  const pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
  if (reaped == pid_) {
    end_ = describe_end(status);
    if (WIFEXITED(status)) exit_status_ = WEXITSTATUS(status);
  }
  // If SIGCHLD is ignored, the kernel has reaped the child, and how it ended is lost.
  if (reaped < 0 && errno == ECHILD) end_ = "it is gone";
  return !end_.empty();
}

std::vector<std::string> harmless_environment() {
  static constexpr std::array<std::string_view, 13> kNames = {
      "PATH",         "LD_LIBRARY_PATH",  "LANG",          "LC_ALL",       "LC_CTYPE",
      "TZ",           "TMPDIR",           "ASAN_OPTIONS",  "TSAN_OPTIONS", "UBSAN_OPTIONS",
      "LSAN_OPTIONS", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"};
  static constexpr std::array<std::string_view, 2> kPrefixes = {"ONEDNN_", "DNNL_"};
  std::vector<std::string> harmless;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    const std::string_view name = variable.substr(0, variable.find('='));
    const bool named = std::find(kNames.begin(), kNames.end(), name) != kNames.end();
    const bool prefixed = std::any_of(kPrefixes.begin(), kPrefixes.end(),
                                      [&](std::string_view p) { return name.starts_with(p); });
    if (named || prefixed) harmless.emplace_back(variable);
  }
  return harmless;
}

std::vector<std::string> process_arguments(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

bool kill_if(pid_t pid, int signal, const std::function<bool()>& is_it) {
  const int descriptor = pidfd_open(pid);
  if (descriptor < 0) return false;
  // The descriptor is opened before the check: if the pid is reused afterwards, the signal reaches
  // no other process.
  const bool sent = is_it() && pidfd_send_signal(descriptor, signal) == 0;
  ::close(descriptor);
  return sent;
}

}  // namespace tandem
