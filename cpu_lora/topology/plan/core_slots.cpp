#include "cpu_lora/topology/plan/core_slots.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

namespace tandem {
namespace {

class Finder {
 public:
  Finder(const MachineMap& machine, const PinOptions& options)
      : machine_(machine),
        options_(options),
        excluded_(options.exclude.begin(), options.exclude.end()) {
    for (const CoreClaim& claim : options.claims) {
      of_engines_.insert(claim.engine_cpus.begin(), claim.engine_cpus.end());
      of_workers_.insert(claim.worker_cpus.begin(), claim.worker_cpus.end());
    }
  }

  std::vector<CoreSlot> find() {
    for (std::size_t i = 0; i < machine_.cores.size(); ++i) add_core(static_cast<int>(i));
    return std::move(slots_);
  }

 private:
  void add_core(int position) {
    const MachineCore& core = machine_.cores[static_cast<std::size_t>(position)];
    std::vector<CoreSlot> found;
    bool barred = false;
    for (const MachineThread& thread : core.threads) {
      if (excluded_.contains(thread.cpu)) {
        // The load that keeps this thread busy would also disturb its siblings.
        barred = true;
        continue;
      }
      if (thread.use != CpuUse::usable) continue;
      CoreSlot slot;
      slot.cpu = thread.cpu;
      slot.core = position;
      slot.node = memory_node_of(core.node);
      slot.rank = static_cast<int>(found.size());
      slot.kind = core.speed_rank;
      slot.isolated = thread.isolated;
      slot.claim = claim_of(core);
      found.push_back(slot);
    }
    if (found.empty() || (barred && !options_.smt)) return;
    if (!options_.smt) {
      // One thread per core is used; if one is isolated, that one is taken and the core is for
      // workers.
      const auto isolated = std::ranges::find_if(found, &CoreSlot::isolated);
      CoreSlot chosen = isolated == found.end() ? found.front() : *isolated;
      chosen.rank = 0;
      found = {chosen};
    }
    slots_.insert(slots_.end(), found.begin(), found.end());
  }

  // A claim on one thread of a core counts for the whole core, because its threads disturb each
  // other.
  CoreSlot::Claim claim_of(const MachineCore& core) const {
    const auto any_of = [&](const std::unordered_set<int>& cpus) {
      return !cpus.empty() && std::ranges::any_of(core.threads, [&](const MachineThread& thread) {
        return cpus.contains(thread.cpu);
      });
    };
    return any_of(of_engines_)   ? CoreSlot::Claim::of_engine
           : any_of(of_workers_) ? CoreSlot::Claim::of_workers
                                 : CoreSlot::Claim::none;
  }

  int memory_node_of(int node) {
    const auto [known, is_new] = memory_nodes_.try_emplace(node, 0);
    if (is_new) known->second = machine_.memory_node_of(node);
    return known->second;
  }

  const MachineMap& machine_;
  const PinOptions& options_;
  const std::unordered_set<int> excluded_;
  std::unordered_set<int> of_engines_;
  std::unordered_set<int> of_workers_;
  std::map<int, int> memory_nodes_;
  std::vector<CoreSlot> slots_;
};

// The slowest kind that is needed: kinds are added, fastest first, until they have enough cores.
int slowest_kind(const std::vector<CoreSlot>& slots) {
  std::map<int, int> cores;
  for (const CoreSlot& slot : slots) {
    if (slot.rank == 0 && !slot.isolated) ++cores[slot.kind];
  }
  int sum = 0;
  for (const auto& [kind, count] : cores) {
    sum += count;
    if (sum >= kEnoughCores) return kind;
  }
  return cores.empty() ? 0 : cores.rbegin()->first;
}

}  // namespace

std::vector<CoreSlot> find_core_slots(const MachineMap& machine, const PinOptions& options,
                                      std::vector<int>& kinds_left_out) {
  std::vector<CoreSlot> slots = Finder(machine, options).find();
  if (options.slow_cores) return slots;
  const int slowest = slowest_kind(slots);
  std::erase_if(slots, [&](const CoreSlot& slot) {
    if (slot.kind <= slowest) return false;
    kinds_left_out.push_back(slot.cpu);
    return true;
  });
  return slots;
}

}  // namespace tandem
