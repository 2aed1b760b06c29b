#include "shm/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cmath>
#include <ctime>

namespace tandem {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 &&
              std::atomic<std::uint32_t>::is_always_lock_free);

// Neither call uses FUTEX_PRIVATE, because the waiters are other processes. Errors are ignored: a
// failed wait ends early, and a wake fails only for an address that is no futex.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, double timeout_s) {
  if (!(timeout_s > 0)) return;
  const double whole = std::floor(timeout_s);
  const timespec timeout{.tv_sec = static_cast<time_t>(whole),
                         .tv_nsec = static_cast<long>((timeout_s - whole) * 1e9)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tandem
