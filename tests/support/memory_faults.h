// Allocations of a real process that fail: what a test says, in a file that both map, to the
// library that the process was started with (failing_memory_preload.cpp).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace tandem::testing {

inline constexpr const char* kMemoryFaultsVariable = "MEMORY_FAULTS_FILE";  // its path

// 0 thread | 8 failed
struct MemoryFaults {
  std::atomic<pid_t> thread{0};  // whose allocations fail from now on; 0: nobody's
  alignas(8) std::atomic<std::int64_t> failed{0};  // so many have
};
static_assert(sizeof(MemoryFaults) == 16);
static_assert(std::atomic<pid_t>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

}  // namespace tandem::testing
