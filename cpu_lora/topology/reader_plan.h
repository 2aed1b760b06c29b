// Which cores the threads get that read adapters from disk, beside the engine and the CPU workers
// of a PinPlan. Pure.
//
// Each has a core: a kernel that has to place them puts several on one and leaves others idle (seen
// on virtual machines), and who waits for a core waits for some milliseconds, as long as a whole
// step takes. So nobody shares one for long: of the engine's cores the second half is theirs; steps
// that are planned while adapters are read hand nothing to workers whose cores are readers' (one
// that is under way when a reading begins may); and on the cores of the other workers nobody reads
// while these compute, nor until the next adapter, who has left such a core.
#pragma once

#include <cstddef>
#include <vector>

#include "cpu_lora/topology/pin_plan.h"

namespace tandem {

struct ReaderPlan {
  std::vector<int> cpus;  // a thread for each; empty: too few cores to keep them apart
  std::size_t apart = 0;  // of these, the first so many go on while workers compute
  // [PinPlan::workers], of each the first so many: their cores are among those apart. Empty: as
  // cpus.
  std::vector<std::size_t> beside;
};

ReaderPlan plan_readers(const PinPlan& plan);

}  // namespace tandem
