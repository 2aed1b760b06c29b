// CPU workers under the stopwatch of `tandem profile`: worker loops in threads of this process,
// each bound to a core, given jobs through a mailbox as the device gives them.
#pragma once

#include "tools/profile/profile_measure.h"

namespace tandem {

// From doorbell to the last answer, for one layer's q, k and v: by workers, rank, rows, split and
// groups. Weights come from memory, not from caches. Jobs follow each other as the layers of a step
// do, as workers prepare for the next one meanwhile: the gap from an answer to the next doorbell is
// the pace of the layers in this pass' table "prefill", less what their products take. Bursts are
// timed without a gap, too, which tells reading from reading ahead. Requires workers.
MadeStage make_worker_stage(const ProfileTarget& target);

}  // namespace tandem
