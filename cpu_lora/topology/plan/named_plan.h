// Builds a PinPlan from cpus that a user has named one by one. Pure.
#pragma once

#include <vector>

#include "base/status.h"
#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/plan/pin_plan.h"

namespace tandem {

// `workers` are grouped by node; nodes and cpus keep the order of the list. From `engine` the cpus
// whose cores have no worker are taken, rising, and a note names the others. If `engine` is empty
// the engine gets no cpus, because other processes may use the remaining ones.
// invalid_argument: a cpu that this process may not use; the message names the setting.
Result<PinPlan> named_plan(const MachineMap& machine, const std::vector<int>& workers,
                           const std::vector<int>& engine);

}  // namespace tandem
