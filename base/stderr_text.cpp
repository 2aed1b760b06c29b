#include "base/stderr_text.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>

namespace tandem {

// Writes at most PIPE_BUF bytes at once: a ready pipe takes that many without blocking.
void say_on_stderr(std::string_view text, int patience_ms) noexcept {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (!text.empty()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now());
    pollfd standard_error{STDERR_FILENO, POLLOUT, 0};
    const int ready = ::poll(&standard_error, 1, static_cast<int>(std::max<long>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready != 1 || (standard_error.revents & POLLOUT) == 0) return;
    const ssize_t written =
        ::write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace tandem
