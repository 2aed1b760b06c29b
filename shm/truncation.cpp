#include "shm/truncation.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/stderr_text.h"

namespace tandem {
namespace {

// The handler reads the ranges without a lock: an entry is valid while its `bytes` are above zero,
// which is stored last and cleared first.
struct Watched {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> bytes{0};
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);

std::array<Watched, 64> watched;
std::mutex adding;  // guards adding entries, and the handler
bool installed = false;
struct sigaction before;
std::atomic<bool> said{false};

void put_zeros(int number, siginfo_t* info, void* context) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr) / page * page;
  for (const Watched& range : watched) {
    // acquire: pairs with the release in survive_truncation(), which has stored `begin` before
    const std::size_t bytes = range.bytes.load(std::memory_order_acquire);
    const std::uintptr_t begin = range.begin.load(std::memory_order_relaxed);
    if (bytes == 0 || at < begin || at >= begin + bytes) continue;
    // The pages behind it are missing as well.
    void* const zeros =
        ::mmap(reinterpret_cast<void*>(at), begin + bytes - at, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) break;
    if (!said.exchange(true)) {
      say_on_stderr(
          "another process has truncated the shared memory of the CPU workers: they "
          "answer no more, restart the server\n");
    }
    return;
  }
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(number, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    return before.sa_handler(number);
  ::signal(SIGBUS, SIG_DFL);  // the access is repeated, and ends the process
}

}  // namespace

bool survive_truncation(void* begin, std::size_t bytes) {
  const std::lock_guard lock(adding);
  if (!installed) {
    struct sigaction action {};
    action.sa_sigaction = put_zeros;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    if (::sigaction(SIGBUS, &action, &before) != 0) return false;
    installed = true;
  }
  for (Watched& range : watched) {
    if (range.bytes.load(std::memory_order_relaxed) != 0) continue;
    range.begin.store(reinterpret_cast<std::uintptr_t>(begin), std::memory_order_relaxed);
    range.bytes.store(bytes, std::memory_order_release);  // pairs with the acquire in put_zeros()
    return true;
  }
  return false;
}

void forget_truncation(void* begin) {
  const std::lock_guard lock(adding);
  for (Watched& range : watched) {
    if (range.begin.load(std::memory_order_relaxed) != reinterpret_cast<std::uintptr_t>(begin)) {
      continue;
    }
    range.bytes.store(0, std::memory_order_release);  // pairs as above
    range.begin.store(0, std::memory_order_relaxed);
  }
}

}  // namespace tandem
