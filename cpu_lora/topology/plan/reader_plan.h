// Chooses the cores of the threads that read adapters from disk, besides the engine's and the CPU
// workers' cores of a PinPlan. Pure.
//
// Each reader has its own core: if the kernel places the threads, it puts several on one core and
// leaves others idle (seen on virtual machines), and a thread that waits for a core waits for some
// milliseconds, as long as a whole step. To keep threads from sharing a core for long, readers use
// the second half of the engine's cores. Steps that are planned while adapters are read give no
// jobs to workers whose cores are readers' (a step that has begun before may still use them). On
// the cores of the other workers nothing is read while these workers compute; a reader that has
// left such a core does not return before the next adapter.
#pragma once

#include <cstddef>
#include <vector>

#include "cpu_lora/topology/plan/pin_plan.h"

namespace tandem {

struct ReaderPlan {
  std::vector<int> cpus;  // one thread for each; empty: too few cores to keep the threads apart
  std::size_t apart = 0;  // the first `apart` of these threads keep reading while workers compute
  // For each of PinPlan::workers: its first beside[i] workers have cores that are among the first
  // `apart`. Empty if `cpus` is.
  std::vector<std::size_t> beside;
};

ReaderPlan plan_readers(const PinPlan& plan);

}  // namespace tandem
