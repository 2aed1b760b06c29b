// Waiting for a word that another processor or a device writes.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace tandem {

// A moment in a spin loop: `pause`, and its like elsewhere.
void relax();

// Waits, for some microseconds at most, until `word` is not `seen` any more; may return early.
// With UMONITOR and UMWAIT the core rests meanwhile, in the light state that it leaves in well
// under a microsecond; without, it spins for about as long as a look at the clock takes.
void wait_for_change(const std::atomic<std::uint64_t>& word, std::uint64_t seen);

// For who has waited since `start` and looks again: after 100 us lets others run on this core, if
// it has others. It may be one of them that it waits for. On a core of its own that costs a system
// call.
void share_core(TimePoint start);

}  // namespace tandem
