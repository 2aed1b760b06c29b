#include "cpu_lora/topology/plan/worker_moves.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>

namespace tandem {
namespace {

class Mover {
 public:
  Mover(const MachineMap& machine, const std::vector<SeatedWorkers>& now,
        const std::vector<int>& engine_cpus, const std::vector<CoreClaim>& claims)
      : machine_(machine) {
    std::unordered_set<int> taken(engine_cpus.begin(), engine_cpus.end());
    for (const CoreClaim& claim : claims) {
      taken.insert(claim.engine_cpus.begin(), claim.engine_cpus.end());
      taken.insert(claim.worker_cpus.begin(), claim.worker_cpus.end());
    }
    for (const MachineCore& core : machine.cores) {
      for (const int cpu : core.usable()) usable_.insert(cpu);
    }
    for (const SeatedWorkers& group : now) {
      for (const int cpu : group.cpus) {
        if (usable_.contains(cpu)) taken.insert(cpu);
      }
    }
    for (const MachineCore& core : machine.cores) {
      const std::vector<int> cpus = core.usable();
      const auto is_taken = [&](const MachineThread& thread) { return taken.contains(thread.cpu); };
      if (cpus.empty() || std::ranges::any_of(core.threads, is_taken)) continue;
      free_[machine.memory_node_of(core.node)].push_back(cpus.front());
    }
  }

  int cpu_for(int node, int now) {
    if (usable_.contains(now)) return now;
    const MachineNode* const home = machine_.find_node(node);
    const std::vector<int>& nearest =
        home == nullptr ? machine_.nodes.front().nearest : home->nearest;
    for (const int each : nearest) {
      std::vector<int>& cpus = free_[each];
      if (cpus.empty()) continue;
      const int cpu = cpus.back();
      cpus.pop_back();
      return cpu;
    }
    return -1;
  }

 private:
  const MachineMap& machine_;
  std::unordered_set<int> usable_;
  std::map<int, std::vector<int>> free_;  // by node, rising
};

}  // namespace

std::vector<std::vector<int>> move_workers(const MachineMap& machine,
                                           const std::vector<SeatedWorkers>& now,
                                           const std::vector<int>& engine_cpus,
                                           const std::vector<CoreClaim>& claims) {
  Mover mover(machine, now, engine_cpus, claims);
  std::vector<std::vector<int>> moved;
  for (const SeatedWorkers& group : now) {
    std::vector<int>& cpus = moved.emplace_back();
    for (const int cpu : group.cpus) cpus.push_back(mover.cpu_for(group.node, cpu));
  }
  return moved;
}

}  // namespace tandem
