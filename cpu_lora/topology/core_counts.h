// How many cores an engine and its workers get. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "cpu_lora/topology/core_slots.h"
#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/pin_plan.h"

namespace tandem {

struct CoreCounts {
  // Slots that may be the engine's, near ones and others, and near ones that are workers' alone.
  int near = 0;
  int far_engine = 0;
  int near_isolated = 0;
  // Who gets how many.
  int engine = 0;
  int workers = 0;
};

// Cores that a CPU quota leaves, one at least: threads of which more want to run at once are
// stopped for the rest of its period.
int quota_of(const MachineMap& machine);

// By the wishes, or else the defaults of pin_plan.h. Removes slots that other engines have claimed,
// unless wishes need them or nothing else is left for the engine. `places`: of the plan's GPUs.
CoreCounts choose_counts(const MachineMap& machine, const PinOptions& options, std::size_t places,
                         std::vector<CoreSlot>& slots);

}  // namespace tandem
