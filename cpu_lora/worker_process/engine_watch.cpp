#include "cpu_lora/worker_process/engine_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tandem {

Result<EngineWatch> EngineWatch::open(int pid) {
  const Status none =
      error(StatusCode::unavailable, "there is no process {}: the engine is gone", pid);
  if (pid <= 0) return none;
  const long descriptor = ::syscall(SYS_pidfd_open, pid, 0);
  if (descriptor < 0) {
    const int failure = errno;
    if (failure == ESRCH) return none;
    if (failure != ENOSYS && failure != EPERM) return errno_status("pidfd_open", failure);
  }
  EngineWatch watch(pid, static_cast<int>(descriptor));
  if (!watch.alive()) return none;
  return watch;
}

EngineWatch::EngineWatch(EngineWatch&& other) noexcept
    : pid_(other.pid_), descriptor_(std::exchange(other.descriptor_, -1)) {}

EngineWatch::~EngineWatch() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool EngineWatch::alive() const {
  if (descriptor_ >= 0) {
    pollfd ended = {descriptor_, POLLIN, 0};  // readable once the process has ended
    const int ready = ::poll(&ended, 1, 0);
    if (ready >= 0) return ready == 0;
  }
  return ::kill(pid_, 0) == 0 || errno != ESRCH;
}

}  // namespace tandem
