// Failing allocations of a real process: the test controls them through a file that it shares with
// the library preloaded into the process (failing_memory_preload.cpp).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace tandem::testing {

inline constexpr const char* kMemoryFaultsVariable = "MEMORY_FAULTS_FILE";  // its path

// 0 thread | 8 failed
struct MemoryFaults {
  std::atomic<pid_t> thread{0};                    // the thread whose allocations fail; 0: none
  alignas(8) std::atomic<std::int64_t> failed{0};  // number of failures
};
static_assert(sizeof(MemoryFaults) == 16);
static_assert(std::atomic<pid_t>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

}  // namespace tandem::testing
