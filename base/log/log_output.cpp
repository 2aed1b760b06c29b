#include "base/log/log_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace tandem {

// O_NONBLOCK on descriptor 2 itself would affect everyone who shares it, including the shell.
void LogOutput::look_at_stderr() {
  struct stat now {};
  if (::fstat(STDERR_FILENO, &now) != 0) now = {};
  if (known_ && now.st_dev == device_ && now.st_ino == inode_) return;
  known_ = true;
  device_ = now.st_dev;
  inode_ = now.st_ino;
  if (own_ >= 0) ::close(own_);
  own_ = -1;
  way_ = Way::direct;
  if (S_ISSOCK(now.st_mode)) way_ = Way::socket;
  if (!S_ISFIFO(now.st_mode) && !S_ISCHR(now.st_mode)) return;
  own_ = ::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (own_ >= 0) way_ = Way::non_blocking;
}

// Returns the number of bytes taken; -1: the reader has no room yet.
std::ptrdiff_t LogOutput::send(std::string_view bytes) {
  if (way_ == Way::direct) {
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) return -1;
  }
  const ssize_t sent =
      way_ == Way::socket
          ? ::send(STDERR_FILENO, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
          : ::write(way_ == Way::direct ? STDERR_FILENO : own_, bytes.data(), bytes.size());
  if (sent >= 0) return sent;
  if (errno == EINTR) return 0;
  // The reader has gone or the disk is full: the line is lost.
  return errno == EAGAIN || errno == EWOULDBLOCK ? -1 : static_cast<std::ptrdiff_t>(bytes.size());
}

// True if nothing is left.
bool LogOutput::send_waiting() {
  while (!waiting_.empty()) {
    const std::string& first = waiting_.front();
    const std::ptrdiff_t sent = send(std::string_view(first).substr(sent_));
    if (sent < 0) return false;
    sent_ += static_cast<std::size_t>(sent);
    if (sent_ < first.size()) continue;
    waiting_bytes_ -= first.size();
    sent_ = 0;
    waiting_.pop_front();
    if (lost_ == 0) continue;
    waiting_.push_front(fmt::format("... {} lines of the log are lost: nobody read them\n", lost_));
    waiting_bytes_ += waiting_.front().size();
    lost_ = 0;
  }
  return true;
}

void LogOutput::write(std::string_view line) {
  const std::lock_guard lock(mutex_);
  look_at_stderr();
  waiting_.emplace_back(line);
  waiting_bytes_ += line.size();
  if (send_waiting()) return;
  // The first line may be partly sent and stays; the note about lost lines follows it.
  while (waiting_bytes_ > kMaxWaitingBytes && waiting_.size() > 2) {
    waiting_bytes_ -= waiting_[1].size();
    waiting_.erase(waiting_.begin() + 1);
    ++lost_;
  }
}

void LogOutput::flush(int timeout_ms) {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return;
  look_at_stderr();
  while (!send_waiting()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now());
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) return;
  }
}

}  // namespace tandem
