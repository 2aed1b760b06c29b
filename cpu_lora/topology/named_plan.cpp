#include "cpu_lora/topology/named_plan.h"

#include <algorithm>
#include <string_view>

namespace tandem {
namespace {

// The core that the cpu is a usable thread of.
Result<const MachineCore*> core_of(const MachineMap& machine, int cpu, std::string_view setting) {
  for (const MachineCore& core : machine.cores) {
    const std::vector<int> usable = core.usable();
    if (std::find(usable.begin(), usable.end(), cpu) != usable.end()) return &core;
  }
  return invalid("{}: cpu {} is none that this process may use", setting, cpu);
}

}  // namespace

Result<PinPlan> named_plan(const MachineMap& machine, const std::vector<int>& workers,
                           const std::vector<int>& engine) {
  PinPlan plan;
  for (const int cpu : workers) {
    TANDEM_ASSIGN(const MachineCore* const core, core_of(machine, cpu, "worker_cpus"));
    const MachineNode* const own = machine.find_node(core->node);
    const int node = own == nullptr ? core->node : own->memory_node;
    auto known = std::find_if(plan.workers.begin(), plan.workers.end(),
                              [&](const PinPlan::Workers& group) { return group.node == node; });
    if (known == plan.workers.end()) known = plan.workers.insert(known, {node, {}});
    known->cpus.push_back(cpu);
  }
  for (const int cpu : engine) {
    TANDEM_TRY(core_of(machine, cpu, "cpus").status());
    if (std::find(workers.begin(), workers.end(), cpu) == workers.end()) {
      plan.engine_cpus.push_back(cpu);
    }
  }
  std::sort(plan.engine_cpus.begin(), plan.engine_cpus.end());
  if (!plan.workers.empty()) plan.node = plan.workers.front().node;
  return plan;
}

}  // namespace tandem
