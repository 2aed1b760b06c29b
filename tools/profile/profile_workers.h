// CPU workers under the stopwatch of `tandem profile`: worker loops in threads of this process,
// each bound to a core, given jobs through a mailbox as the device gives them.
#pragma once

#include "base/status.h"
#include "engine/profile/profile.h"
#include "tools/profile/profile_measure.h"

namespace tandem {

// From bell to the last answer, for one layer's q, k and v: by workers, rank, rows, split and
// groups. Weights come from memory, not from caches. Jobs follow each other as the layers of a step
// do (`gap_s` from an answer to the next bell), as workers prepare for the next one meanwhile.
Status measure_workers(const ProfileTarget& target, double gap_s, Profile& profile);

}  // namespace tandem
