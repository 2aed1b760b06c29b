// Which cores the threads get that read adapters from disk, beside the engine and the CPU workers
// of a PinPlan. Pure.
//
// Each has a core: a kernel that has to place them puts several on one and leaves others idle (seen
// on virtual machines), and who waits for a core waits for some milliseconds, as long as a whole
// step takes. So nobody shares one at the same time: of the engine's cores the second half is
// theirs; workers whose cores are readers' are handed nothing while adapters are read; and on the
// cores of the other workers nobody reads while these compute.
#pragma once

#include <cstddef>
#include <vector>

#include "cpu_lora/topology/pin_plan.h"

namespace tandem {

struct ReaderPlan {
  std::vector<int> cpus;  // a thread for each; empty: too few cores to keep them apart
  std::size_t apart = 0;  // of these, the first so many are never a computing worker's
  // [PinPlan::workers], of each the first so many: their cores are among those apart. Empty: as
  // cpus.
  std::vector<std::size_t> beside;
};

ReaderPlan plan_readers(const PinPlan& plan);

}  // namespace tandem
