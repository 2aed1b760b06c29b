// Which empty worker slots of a running engine get a worker, and on which cpu.
#pragma once

#include <string>
#include <vector>

#include "cpu_lora/placement/placement.h"
#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/pin_plan.h"

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

// First the worker slots that the engine means a cpu for and where nobody sits. Then, if workers
// are wished for (`wishes.workers`, counting those to be started) or the engine means none at all,
// further worker slots, on what the plan of `wishes` gives to workers at the group's node. No cpu
// that the engine keeps, that a worker slot is meant for, or that a worker is on.
WorkerSlotChoices choose_worker_slots(const ObservedEngine& engine, const MachineMap& machine,
                                      const PinOptions& wishes);

}  // namespace tandem
