// Loads the description of a machine with hwloc.
#pragma once

#include "base/status.h"
#include "cpu_lora/topology/hwloc_handles.h"
#include "cpu_lora/topology/machine_map.h"

namespace tandem {

bool is_this_machine(const MachineOptions& options);

// Returns an error if hwloc cannot read the machine. The result includes resources that this
// process may not use. Keeps hwloc from input that would end this process or never return: files
// that describe no machine (machine_xml.h), a kernel folder of NUMA nodes without a node, forbidden
// system calls for cpus.
Result<TopologyHandle> load_machine(const MachineOptions& options);

}  // namespace tandem
