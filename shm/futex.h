// A 32-bit word in shared memory that one process waits for and another wakes it by.
#pragma once

#include <atomic>
#include <cstdint>

namespace tandem {

// Sleeps while `word` holds `expected`, until futex_wake_all(), a signal, or the time is over; the
// caller looks again in every case. The word may lie in memory that is mapped read-only.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, double timeout_s);
// Wakes all that wait for the word, in any process.
void futex_wake_all(std::atomic<std::uint32_t>& word);

}  // namespace tandem
