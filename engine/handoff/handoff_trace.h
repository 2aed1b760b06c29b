// The part of a trace that shows a step's handoff: which layers CPU workers computed, and when.
#pragma once

#include <vector>

#include "base/clock.h"
#include "engine/handoff/handoff_step.h"

namespace tandem {

// The time of one group of a step, from the start of the first layer that workers computed in part
// to the end of the last; both zero if there is no such layer.
struct WorkerTime {
  TimePoint begin{}, end{};
};

// Records a span for each layer and mailbox, and returns the time of each group. Call it before
// OfferedHandoff::finish, when the device has finished the step. `launched` and `seen`: when the
// host had launched the step, and when it saw its end.
//
// A span reaches from the first offer of a layer to the first offer of the next layer that has one.
// The device records these times anyway, so tracing adds nothing to the protocol with the workers.
// They are of the device's clock, and get the smallest correction that puts the first at or after
// `launched` and the last at or before `seen`: none where both clocks are the same, as on the host.
// On a GPU the spans are late by the work of the step after its last offer.
std::vector<WorkerTime> trace_workers(const HandoffStep& step, TimePoint launched, TimePoint seen);

}  // namespace tandem
