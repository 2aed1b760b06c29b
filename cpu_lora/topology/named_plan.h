// The pinning that a user has named, cpu by cpu, as plan_pinning() would have made it. Pure.
#pragma once

#include <vector>

#include "base/status.h"
#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/pin_plan.h"

namespace tandem {

// `workers` by node, nodes and cpus in the order of the list. Of `engine` those whose cores have no
// worker, rising, with a note of the others: none where none are named, for what is left may be
// another process's.
// invalid_argument: a cpu that this process may not use; the message names the setting.
Result<PinPlan> named_plan(const MachineMap& machine, const std::vector<int>& workers,
                           const std::vector<int>& engine);

}  // namespace tandem
