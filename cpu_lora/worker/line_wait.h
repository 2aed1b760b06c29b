// Waits for words that another processor or a device writes.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace tandem {

// A short pause in a spin loop: `pause`, or the like on other processors.
void relax();

// Waits until `word` differs from `seen`, for some microseconds at most; may return early. With
// UMONITOR and UMWAIT the core meanwhile rests in the light state, which it leaves in well under a
// microsecond; without, it spins for about as long as reading the clock takes.
void wait_for_change(const std::atomic<std::uint64_t>& word, std::uint64_t seen);

// For loops that have waited since `start`: after 100 us, lets other threads run on this core,
// since the loop may be waiting for one of them. On a core without others this costs a system call.
void share_core(TimePoint start);

}  // namespace tandem
