#include "cpu_lora/placement/worker_slot_choice.h"

#include <algorithm>
#include <set>

namespace tandem {
namespace {

// The kernel's value comes first: the one that the worker wrote may be damaged and would block the
// cpu for the worker that it is intended for.
int cpu_of(const ObservedWorker& worker) {
  return worker.allowed.size() == 1 ? worker.allowed.front() : worker.claimed_cpu;
}

class Chooser {
 public:
  Chooser(const ObservedEngine& engine, const MachineMap& machine, const PinOptions& wishes)
      : engine_(engine), machine_(machine), wishes_(wishes) {}

  WorkerSlotChoices choose() {
    taken_.insert(engine_.info.engine_cpus.begin(), engine_.info.engine_cpus.end());
    for (const ObservedWorker& worker : engine_.workers) {
      means_any_ = means_any_ || worker.meant_cpu >= 0;
      if (worker.pid > 0) taken_.insert(cpu_of(worker));
    }
    for (const ObservedWorker& worker : engine_.workers) choose_meant(worker);
    // The other intended cpus, also those beyond the wished number, remain reserved for the engine.
    for (const ObservedWorker& worker : engine_.workers) taken_.insert(worker.meant_cpu);
    if (wishes_.workers >= 0 || !means_any_) {
      for (std::size_t i = 0; i < engine_.info.groups.size(); ++i) choose_more(static_cast<int>(i));
    }
    if (wishes_.workers > count()) {
      choices_.notes.push_back(
          fmt::format("{} workers are asked for and {} can be started", wishes_.workers, count()));
    }
    return std::move(choices_);
  }

 private:
  int count() const { return static_cast<int>(choices_.worker_slots.size()); }
  bool enough() const { return wishes_.workers >= 0 && count() >= wishes_.workers; }

  void choose_meant(const ObservedWorker& worker) {
    if (worker.pid > 0 || worker.meant_cpu < 0 || enough()) return;
    if (!taken_.insert(worker.meant_cpu).second) {
      choices_.notes.push_back(
          fmt::format("worker slot {} of group {} stays empty: its cpu {} is in use",
                      worker.worker_slot, worker.group, worker.meant_cpu));
      return;
    }
    choices_.worker_slots.push_back({worker.group, worker.worker_slot, worker.meant_cpu});
  }

  void choose_more(int index) {
    const ControlInfo::Group& group = engine_.info.groups[static_cast<std::size_t>(index)];
    PinOptions options = wishes_;
    options.workers = -1;
    options.engine_cores = std::max<int>(1, static_cast<int>(engine_.info.engine_cpus.size()));
    options.host_device = false;  // then all cores except the engine's are for workers
    if (group.node >= 0) options.node = group.node;
    const Result<PinPlan> plan = plan_pinning(machine_, options);
    if (!plan) {
      choices_.notes.push_back(fmt::format("group {}: {}", index, plan.status().message()));
      return;
    }
    std::vector<int> cpus;
    for (const int cpu : plan->worker_cpus()) {
      if (taken_.count(cpu) == 0) cpus.push_back(cpu);
    }
    std::size_t next = 0;
    for (int worker_slot = 0;
         worker_slot < group.num_worker_slots && next < cpus.size() && !enough(); ++worker_slot) {
      const bool somebodys = std::any_of(
          engine_.workers.begin(), engine_.workers.end(), [&](const ObservedWorker& worker) {
            return worker.group == index && worker.worker_slot == worker_slot;
          });
      if (somebodys) continue;
      taken_.insert(cpus[next]);
      choices_.worker_slots.push_back({index, worker_slot, cpus[next++]});
    }
  }

  const ObservedEngine& engine_;
  const MachineMap& machine_;
  const PinOptions& wishes_;
  std::set<int> taken_;
  bool means_any_ = false;
  WorkerSlotChoices choices_;
};

}  // namespace

WorkerSlotChoices choose_worker_slots(const ObservedEngine& engine, const MachineMap& machine,
                                      const PinOptions& wishes) {
  return Chooser(engine, machine, wishes).choose();
}

}  // namespace tandem
