// Waiting and waking by a 32-bit word in shared memory, between processes.
#pragma once

#include <atomic>
#include <cstdint>

namespace tandem {

// Sleeps while `word` holds `expected`, until futex_wake_all(), a signal, or the timeout; the
// caller checks the word again in every case. The word may lie in memory that is mapped read-only.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, double timeout_s);
// Wakes all threads that wait for the word, in any process.
void futex_wake_all(std::atomic<std::uint32_t>& word);

}  // namespace tandem
