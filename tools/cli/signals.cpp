#include "tools/cli/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/check.h"
#include "base/stderr_text.h"
#include "shm/region.h"

namespace tandem {

Result<std::unique_ptr<StopSignals>> StopSignals::create() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) != 0) return errno_status("sigaction", errno);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  if (const int failure = pthread_sigmask(SIG_BLOCK, &set, nullptr); failure != 0) {
    return errno_status("pthread_sigmask", failure);
  }
  std::unique_ptr<StopSignals> made(new StopSignals);
  made->signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC);
  if (made->signal_fd_ < 0) return errno_status("signalfd", errno);
  made->quit_fd_ = eventfd(0, EFD_CLOEXEC);
  if (made->quit_fd_ < 0) return errno_status("eventfd", errno);
  made->timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  if (made->timer_fd_ < 0) return errno_status("timerfd_create", errno);
  made->watcher_ = std::thread([signals = made.get()] { signals->watch(); });
  return made;
}

StopSignals::~StopSignals() {
  if (watcher_.joinable()) {
    const std::uint64_t one = 1;
    // An eventfd's counter cannot be full here, so the write cannot fail.
    [[maybe_unused]] const ssize_t written = write(quit_fd_, &one, sizeof one);
    watcher_.join();
  }
  if (signal_fd_ >= 0) close(signal_fd_);
  if (quit_fd_ >= 0) close(quit_fd_);
  if (timer_fd_ >= 0) close(timer_fd_);
}

void StopSignals::watch() {
  for (;;) {
    pollfd fds[3] = {{signal_fd_, POLLIN, 0}, {quit_fd_, POLLIN, 0}, {timer_fd_, POLLIN, 0}};
    if (poll(fds, 3, -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (fds[1].revents != 0) return;
    if (fds[2].revents != 0) {
      unlink_own_shm_regions();  // as below
      say_on_stderr("the time to end is over: what still runs is cut off\n");
      // relaxed: the number guards nothing
      _exit(late_status_.load(std::memory_order_relaxed));
    }
    if (fds[0].revents == 0) continue;
    signalfd_siginfo info{};
    if (read(signal_fd_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) continue;
    const int number = static_cast<int>(info.ssi_signo);
    const std::lock_guard lock(mutex_);
    if (first_ != 0 || !graceful_) {
      unlink_own_shm_regions();  // else /dev/shm would hold their memory until the next start
      _exit(128 + number);
    }
    first_ = number;
    changed_.notify_all();
  }
}

void StopSignals::exit_after(Duration timeout) {
  const auto nanoseconds = std::max<std::int64_t>(1, timeout.count());  // 0 would stop the timer
  itimerspec at{};
  at.it_value.tv_sec = nanoseconds / 1'000'000'000;
  at.it_value.tv_nsec = nanoseconds % 1'000'000'000;
  const int failure = timerfd_settime(timer_fd_, 0, &at, nullptr);
  TANDEM_CHECK(failure == 0, "timerfd_settime: errno {}", errno);
}

void StopSignals::set_late_status(int status) {
  late_status_.store(status, std::memory_order_relaxed);  // as in watch()
}

void StopSignals::set_graceful(bool graceful) {
  const std::lock_guard lock(mutex_);
  graceful_ = graceful;
}

bool StopSignals::stop_requested() const {
  return signal_number() != 0;
}

int StopSignals::signal_number() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

int StopSignals::exit_status(int status) const {
  const int number = signal_number();
  return number != 0 ? 128 + number : status;
}

void StopSignals::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return first_ != 0; });
}

bool StopSignals::wait_for(Duration timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return first_ != 0; });
}

}  // namespace tandem
