// Chooses which empty worker slots of a running engine get a worker, and on which cpu.
#pragma once

#include <string>
#include <vector>

#include "cpu_lora/placement/placement.h"
#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/plan/pin_plan.h"

namespace tandem {

struct WorkerSlotChoice {
  int group = 0;
  int worker_slot = 0;
  int cpu = 0;
};

struct WorkerSlotChoices {
  std::vector<WorkerSlotChoice> worker_slots;
  std::vector<std::string> notes;  // why there are not more
};

// First come the empty worker slots for which the engine intends a cpu. If workers are wished for
// (`wishes.workers`, which counts those to be started), or if the engine intends none at all,
// further worker slots follow, on the worker cpus of a plan with `wishes` at the group's node. No
// cpu is chosen that the engine keeps, that is intended for a worker slot, or that a worker uses.
WorkerSlotChoices choose_worker_slots(const ObservedEngine& engine, const MachineMap& machine,
                                      const PinOptions& wishes);

}  // namespace tandem
