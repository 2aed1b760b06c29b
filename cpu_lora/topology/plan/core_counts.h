// Chooses how many cores an engine and its workers get. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/plan/core_slots.h"
#include "cpu_lora/topology/plan/pin_plan.h"

namespace tandem {

struct CoreCounts {
  // Slots that the engine may use, near and far, and near slots that only workers may use.
  int near = 0;
  int far_engine = 0;
  int near_isolated = 0;
  // The chosen numbers of cores.
  int engine = 0;
  int workers = 0;
};

// The number of cores that a CPU quota allows, at least one. If more threads run at once, the
// kernel stops them for the rest of the quota's period.
int quota_of(const MachineMap& machine);

// Chooses the numbers by the wishes in `options`, or by the defaults of pin_plan.h. Removes slots
// that other engines have claimed, unless the wishes need them or no other slot is left for the
// engine. `places`: the number of places of the plan's GPUs.
CoreCounts choose_counts(const MachineMap& machine, const PinOptions& options, std::size_t places,
                         std::vector<CoreSlot>& slots);

}  // namespace tandem
