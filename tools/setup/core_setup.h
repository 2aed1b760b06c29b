// Chooses from the settings the cores for the engine and its CPU workers, beside other engines of
// the machine. `serve`, `profile` and `pin plan` all use these functions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/plan/pin_plan.h"
#include "cpu_lora/worker_pool/worker_pool.h"
#include "gpu/host/host_device.h"
#include "shm/core_claims.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// Translates `settings`, without claims. Leaves out GPUs that PCI does not show.
Result<PinOptions> choose_pinning(const EngineSettings& settings, bool on_gpu,
                                  const MachineMap& machine);

// Returns the cores that the settings name (cpus, worker_cpus), or else those that
// plan_pinning() chooses. A host device with more threads than cores gets siblings, too.
// invalid_argument, with the setting's name: a named cpu that this process may not use, or fewer
// cores than threads.
Result<PinPlan> plan_cores(const EngineSettings& settings, bool on_gpu, const MachineMap& machine,
                           const std::vector<CoreClaim>& claims = {});

// Returns the claims of the other engines that run on this machine now.
std::vector<CoreClaim> claims_of_others();

// Returns the number of threads with which the host device computes, and their cpus. The cpus are
// empty if threads are not pinned: by `pin`, or because another engine computes on the same cores.
HostDeviceOptions host_options_of(const EngineSettings& settings, const PinPlan& plan);

// A plan and the claim to its cores, which this process holds while the object exists.
struct TakenCores {
  PinPlan plan;
  std::shared_ptr<CoreClaimHolder> claim;  // null: nothing claimed
  ClaimedCores claimed;
};
// Plans around the other engines' claims and claims the result, one process at a time. Logs the
// cores, every note, and the reason if nothing can be claimed, such as a missing /dev/shm.
Result<TakenCores> take_cores(const EngineSettings& settings, bool on_gpu,
                              const MachineMap& machine, const std::string& model_name);

// Returns HandoffOptions::place for an engine with workers on these nodes: plans new cores for the
// workers from the machine's present state, logs them, and claims them in place of the old ones.
// Any thread, one at a time.
std::function<WorkerPoolOptions::CpusOfGroups(const WorkerPoolOptions::CpusOfGroups& now,
                                              const std::vector<int>& allowed)>
worker_placer(const TakenCores& taken);

}  // namespace tandem
