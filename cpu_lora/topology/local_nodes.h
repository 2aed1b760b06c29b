// Finds the NUMA node of a core if several nodes are near it: high-bandwidth memory, CXL memory and
// GPU memory are nodes too, but have no cores of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpu_lora/topology/hwloc_handles.h"
#include "cpu_lora/topology/machine_map.h"

namespace tandem {

struct LocalNode {
  int id = 0;
  hwloc_const_bitmap_t cpus = nullptr;  // the cpus that it is near to; owned by the topology
};

// The nodes in the order of node_of_cpu()'s preference: first by the number of near cpus, fewest
// first; with the same near cpus a node with cores of its own comes first, then a node with
// ordinary memory; last by id. On this machine the kernel reports which memory is ordinary; an XML
// file may name special memory, and otherwise a node with less than a quarter of the largest node's
// memory counts as special.
std::vector<LocalNode> read_local_nodes(hwloc_topology_t topology, const MachineOptions& options);

// Unset: no node is near the cpu.
std::optional<int> node_of_cpu(const std::vector<LocalNode>& nodes, int cpu);

}  // namespace tandem
