// Where CPU workers go when what the engine's process may run on has changed. Pure.
#pragma once

#include <vector>

#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/pin_plan.h"

namespace tandem {

// Workers of one node's memory, by worker slot; -1: a worker slot whose worker has no cpu.
struct SeatedWorkers {
  int node = -1;
  std::vector<int> cpus;
};

// As `now`, but that workers whose cpus may not be used any more, and those without one, get cores
// that nobody has: of their node, else of the nearest one that has some, the last first; -1 where
// none is left. `machine` says what may be used now.
std::vector<std::vector<int>> move_workers(const MachineMap& machine,
                                           const std::vector<SeatedWorkers>& now,
                                           const std::vector<int>& engine_cpus,
                                           const std::vector<CoreClaim>& claims);

}  // namespace tandem
