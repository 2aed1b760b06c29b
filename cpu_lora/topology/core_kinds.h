// Reads the kinds of cores of a machine: P and E cores, big.LITTLE.
#pragma once

#include <hwloc.h>

#include "cpu_lora/topology/machine_map.h"

namespace tandem {

// Sets `map.core_kinds` and each core's speed_rank from hwloc's ranking, which uses the data of the
// operating system (or of an XML file's <cpukind>). Requires `map.cores`.
void read_core_kinds(hwloc_topology_t topology, MachineMap& map);

}  // namespace tandem
