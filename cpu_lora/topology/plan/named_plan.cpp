#include "cpu_lora/topology/plan/named_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace tandem {
namespace {

// The core of which the cpu is a usable thread.
Result<const MachineCore*> usable_core(const MachineMap& machine, int cpu,
                                       std::string_view setting) {
  const MachineCore* const core = machine.find_core(cpu);
  const std::vector<int> usable = core == nullptr ? std::vector<int>() : core->usable();
  if (std::find(usable.begin(), usable.end(), cpu) != usable.end()) return core;
  return invalid("{}: cpu {} is none that this process may use", setting, cpu);
}

}  // namespace

Result<PinPlan> named_plan(const MachineMap& machine, const std::vector<int>& workers,
                           const std::vector<int>& engine) {
  PinPlan plan;
  std::vector<const MachineCore*> taken;
  for (const int cpu : workers) {
    TANDEM_ASSIGN(const MachineCore* const core, usable_core(machine, cpu, "worker_cpus"));
    taken.push_back(core);
    const int node = machine.memory_node_of(core->node);
    auto known = std::find_if(plan.workers.begin(), plan.workers.end(),
                              [&](const PinPlan::Workers& group) { return group.node == node; });
    if (known == plan.workers.end()) known = plan.workers.insert(known, {node, {}});
    known->cpus.push_back(cpu);
  }
  std::vector<int> shared;
  for (const int cpu : engine) {
    TANDEM_ASSIGN(const MachineCore* const core, usable_core(machine, cpu, "cpus"));
    const bool is_taken = std::find(taken.begin(), taken.end(), core) != taken.end();
    (is_taken ? shared : plan.engine_cpus).push_back(cpu);
  }
  if (!shared.empty()) {
    plan.notes.push_back(
        fmt::format("cpus {} are not counted as the engine's own (cpus), because CPU workers have "
                    "their cores (worker_cpus); `tandem pin plan` shows how to share them out",
                    format_id_list(shared)));
  }
  std::sort(plan.engine_cpus.begin(), plan.engine_cpus.end());
  return plan;
}

}  // namespace tandem
