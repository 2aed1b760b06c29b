// Has hwloc look at a machine.
#pragma once

#include "base/status.h"
#include "cpu_lora/topology/hwloc_handles.h"
#include "cpu_lora/topology/machine_map.h"

namespace tandem {

bool is_this_machine(const MachineOptions& options);

// An error for what hwloc cannot read. What this process may not use is in it, too. Keeps away from
// hwloc what would end this process or never end: files that are no machines (machine_xml.h), a
// kernel's folder of NUMA nodes without a node, system calls for cpus that are forbidden.
Result<TopologyHandle> load_machine(const MachineOptions& options);

}  // namespace tandem
