#include "cpu_lora/worker/line_wait.h"

#include <chrono>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tandem {
namespace {

constexpr int kPauses = 64;
constexpr std::chrono::microseconds kAlone{100};

#if defined(__x86_64__)
bool has_waitpkg() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (ecx & (1U << 5)) != 0;
}

[[gnu::target("waitpkg")]] void monitor_and_wait(const std::atomic<std::uint64_t>& word,
                                                 std::uint64_t seen) {
  constexpr unsigned kLightState = 1;             // C0.1
  constexpr std::uint64_t kMostTicks = 1U << 15;  // about 10 us
  _umonitor(const_cast<std::atomic<std::uint64_t>*>(&word));
  // A change before the monitor was armed would not end the wait.
  if (word.load(std::memory_order_relaxed) != seen) return;
  _umwait(kLightState, __rdtsc() + kMostTicks);
}
#endif

}  // namespace

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void wait_for_change(const std::atomic<std::uint64_t>& word, std::uint64_t seen) {
#if defined(__x86_64__)
  static const bool waitpkg = has_waitpkg();
  if (waitpkg) {
    monitor_and_wait(word, seen);
    return;
  }
#endif
  // relaxed: the caller reads the word again, with the order that it needs.
  for (int i = 0; i < kPauses && word.load(std::memory_order_relaxed) == seen; ++i) relax();
}

void share_core(TimePoint start) {
  if (std::chrono::steady_clock::now() - start > kAlone) std::this_thread::yield();
}

}  // namespace tandem
