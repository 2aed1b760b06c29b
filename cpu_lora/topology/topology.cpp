#include "cpu_lora/topology/topology.h"

#include <algorithm>

#include "cpu_lora/topology/machine_map.h"

namespace tandem {

Result<std::vector<Core>> read_topology(const TopologyOptions& options) {
  MachineOptions machine;
  machine.synthetic = options.synthetic;
  machine.allowed_cpus = options.allowed_cpus;
  machine.gpus = false;
  TANDEM_ASSIGN(const MachineMap map, read_machine(machine));
  std::vector<Core> cores;
  for (const MachineCore& each : map.cores) {
    Core core;
    core.cpus = each.usable();
    if (core.cpus.empty()) continue;
    core.cpu = core.cpus.front();
    const MachineNode* node = map.find_node(each.node);
    core.numa_node = node == nullptr ? each.node : node->memory_node;
    cores.push_back(std::move(core));
  }
  if (cores.empty()) {
    return invalid("no usable core: the allowed cpus and this machine's have none in common");
  }
  std::stable_sort(cores.begin(), cores.end(),
                   [](const Core& a, const Core& b) { return a.numa_node < b.numa_node; });
  return cores;
}

}  // namespace tandem
