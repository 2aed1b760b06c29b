// What a trace says of a step's handoff: which layers CPU workers computed, and when.
#pragma once

#include <vector>

#include "base/clock.h"
#include "engine/handoff/handoff_step.h"

namespace tandem {

// Of one group of a step, from the first layer that workers computed anything of to the end of the
// last; both zero: there was none.
struct WorkerTime {
  TimePoint begin{}, end{};
};

// Records a span for each layer and mailbox, and returns what it took of each group. Before the
// step's end(), when the device is done with it. `launched` and `seen`: when the host had begun it,
// and saw its end.
//
// The times are those that the device notes at each offer anyhow, from one layer's first offer to
// that of the next that has any: the protocol with workers has no part in it. They are by the
// device's clock; the first lies not before `launched` and the last not after `seen`, and of what
// is between these bounds the least correction is taken: none where both clocks are one, as on the
// host. On a GPU spans are late by what the step does behind its last offer.
std::vector<WorkerTime> trace_workers(const HandoffStep& step, TimePoint launched, TimePoint seen);

}  // namespace tandem
