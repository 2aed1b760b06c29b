#include "base/memory/memory_reserve.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>

namespace tandem {
namespace {

// A new_handler belongs to the process and has no argument, hence the globals. All are
// constant-initialized and trivially destroyed, because allocations happen before and after main.
std::atomic<std::size_t> half_bytes{0};
std::array<std::atomic<void*>, 2> halves{};
std::atomic<bool> given_up{false};
std::mutex putting_aside;

// Address space that is never touched: it costs no memory until the system has no more memory to
// commit, which is exactly when it is needed.
void put_aside(std::atomic<void*>& half) {
  if (half.load(std::memory_order_acquire) != nullptr) return;
  void* const memory = ::mmap(nullptr, half_bytes.load(std::memory_order_relaxed),
                              PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) half.store(memory, std::memory_order_release);
}

bool give_up(std::atomic<void*>& half) {
  void* const memory = half.exchange(nullptr, std::memory_order_acq_rel);
  if (memory == nullptr) return false;
  ::munmap(memory, half_bytes.load(std::memory_order_relaxed));
  return true;
}

void out_of_memory() {
  given_up.store(true, std::memory_order_release);
  if (give_up(halves[0])) return;  // operator new then tries again
  if (std::uncaught_exceptions() > 0 && give_up(halves[1])) return;
  throw std::bad_alloc();
}

}  // namespace

void keep_memory_reserve(std::size_t bytes) {
  half_bytes.store(bytes, std::memory_order_relaxed);
  for (auto& half : halves) put_aside(half);
  std::set_new_handler(out_of_memory);
}

bool memory_is_short() {
  if (!given_up.load(std::memory_order_acquire)) return false;
  const std::unique_lock lock(putting_aside, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  // Cleared first: a failure from here on sets it again and is not missed.
  given_up.store(false, std::memory_order_release);
  for (auto& half : halves) put_aside(half);
  for (const auto& half : halves) {
    if (half.load(std::memory_order_acquire) != nullptr) continue;
    given_up.store(true, std::memory_order_release);
    return true;
  }
  return false;
}

}  // namespace tandem
