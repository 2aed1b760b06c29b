// Which NUMA node a core belongs to, where several are near it: high-bandwidth memory, memory
// behind CXL and a GPU's memory are nodes as well, without cores of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpu_lora/topology/hwloc_handles.h"
#include "cpu_lora/topology/machine_map.h"

namespace tandem {

struct LocalNode {
  int id = 0;
  hwloc_const_bitmap_t cpus = nullptr;  // that it is near to; the topology owns them
};

// In the order in which node_of_cpu() takes them: nodes near to fewer cpus first, and of nodes near
// to the same cpus the one with cores of its own, then the one with ordinary memory. What is
// ordinary the kernel says of this machine; a file may say it, else a node that has less than a
// quarter of the largest one's memory is taken for special. Last, by id.
std::vector<LocalNode> read_local_nodes(hwloc_topology_t topology, const MachineOptions& options);

// Unset: the cpu is near to none of them.
std::optional<int> node_of_cpu(const std::vector<LocalNode>& nodes, int cpu);

}  // namespace tandem
