// Measures CPU workers for `tandem profile`: worker loops in threads of this process, each bound to
// a core, which get jobs through a mailbox as from the device.
#pragma once

#include "tools/profile/measure/profile_measure.h"

namespace tandem {

// The time from the doorbell to the last answer for one layer's q, k and v: by workers, rank, rows,
// split and groups. Weights come from memory, not from caches. Jobs follow each other like the
// layers of a step, because workers read ahead between jobs: the gap from an answer to the next
// doorbell is the layer time in this pass' table "prefill" less the time of the layer's products.
// Bursts are also measured without a gap, which separates reading from reading ahead. Requires
// workers.
MadeStage make_worker_stage(const ProfileTarget& target);

}  // namespace tandem
