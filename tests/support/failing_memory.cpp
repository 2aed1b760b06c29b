#include "tests/support/failing_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace tandem::test {
namespace {

enum class Part : char { unsaid, yes, no };
thread_local Part t_part = Part::unsaid;
std::atomic<bool> g_elsewhere{false};
// All accesses are relaxed: the words are counters and publish no other data.
std::atomic<std::int64_t> g_count{0};
std::atomic<std::int64_t> g_first{std::numeric_limits<std::int64_t>::max()};
std::atomic<std::int64_t> g_end{0};
std::atomic<std::int64_t> g_failed{0};
std::atomic<std::size_t> g_min_bytes{0};

bool fails(std::size_t bytes) {
  if (bytes < g_min_bytes.load(std::memory_order_relaxed)) return false;
  if (t_part == Part::no) return false;
  if (t_part == Part::unsaid && !g_elsewhere.load(std::memory_order_relaxed)) return false;
  const std::int64_t number = g_count.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number < g_first.load(std::memory_order_relaxed)) return false;
  if (number >= g_end.load(std::memory_order_relaxed)) return false;
  g_failed.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (fails(bytes)) return nullptr;
  if (bytes == 0) bytes = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void may_fail_here(bool whether) {
  t_part = whether ? Part::yes : Part::no;
}

void may_fail_elsewhere(bool whether) {
  g_elsewhere.store(whether, std::memory_order_relaxed);
}

void fail_allocations(std::int64_t first, std::int64_t count, std::size_t min_bytes) {
  (void)stop_failing();
  g_min_bytes.store(min_bytes, std::memory_order_relaxed);
  g_count.store(0, std::memory_order_relaxed);
  g_end.store(first + count, std::memory_order_relaxed);
  g_first.store(first, std::memory_order_relaxed);
}

std::int64_t stop_failing() {
  g_first.store(std::numeric_limits<std::int64_t>::max(), std::memory_order_relaxed);
  return g_failed.exchange(0, std::memory_order_relaxed);
}

std::int64_t allocations() {
  return g_count.load(std::memory_order_relaxed);
}

}  // namespace tandem::test

void* operator new(std::size_t bytes) {
  return tandem::test::allocate_or_throw(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  return tandem::test::allocate_or_throw(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return tandem::test::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return tandem::test::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return tandem::test::allocate(bytes, 1);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return tandem::test::allocate(bytes, 1);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
