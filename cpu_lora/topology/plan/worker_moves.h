// Chooses new cpus for CPU workers after the cpus that the engine's process may use have changed.
// Pure.
#pragma once

#include <vector>

#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/plan/pin_plan.h"

namespace tandem {

// The cpus of the workers of one node's memory, by worker slot; -1: the slot's worker has no cpu.
struct SeatedWorkers {
  int node = -1;
  std::vector<int> cpus;
};

// Returns `now` with new cpus for workers whose cpu may no longer be used and for workers without
// one: unused cores of their node, else of the nearest node that has some, the last core first; -1
// if none is left. `machine` says which cpus may be used now.
std::vector<std::vector<int>> move_workers(const MachineMap& machine,
                                           const std::vector<SeatedWorkers>& now,
                                           const std::vector<int>& engine_cpus,
                                           const std::vector<CoreClaim>& claims);

}  // namespace tandem
