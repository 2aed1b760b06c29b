// From settings to cores: which the engine computes on and which its CPU workers have, beside other
// engines of the machine. The one place that `serve`, `profile` and `pin plan` ask.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/pin_plan.h"
#include "cpu_lora/worker_pool/worker_pool.h"
#include "gpu/host/host_device.h"
#include "shm/core_claims.h"
#include "tools/cli/settings.h"

namespace tandem {

// What `settings` wish for, without claims. A GPU that PCI does not show is left out.
Result<PinOptions> choose_pinning(const EngineSettings& settings, bool on_gpu,
                                  const MachineMap& machine);

// The cores that the settings name (cpus, worker_cpus), or else those that plan_pinning() chooses.
// On the host device with more threads than cores: siblings, too.
// invalid_argument: a named cpu that this process may not use, or fewer cores than threads; the
// message names the setting.
Result<PinPlan> plan_cores(const EngineSettings& settings, bool on_gpu, const MachineMap& machine,
                           const std::vector<CoreClaim>& claims = {});

// The other engines that run here now.
std::vector<CoreClaim> claims_of_others();

// How many threads the host device computes with and where; both are always filled in, but for the
// cpus when threads are not pinned: by `pin`, or as another engine computes on the same cores.
HostDeviceOptions host_options_of(const EngineSettings& settings, const PinPlan& plan);

// A plan, and the claim to its cores, which is this process's while it lives.
struct TakenCores {
  PinPlan plan;
  std::shared_ptr<CoreClaimHolder> claim;  // null: none
  ClaimedCores claimed;
};
// Plans beside the others and claims what it has planned, one process at a time. Logs what was
// taken and every note. Where nothing can be claimed, as /dev/shm is not there, the log says so.
Result<TakenCores> take_cores(const EngineSettings& settings, bool on_gpu,
                              const MachineMap& machine, const std::string& model_name);

// HandoffOptions::place of an engine whose workers are of these nodes, by group: moves workers, by
// what the machine says then, logs it, and claims their new cores instead. Any thread, one at a
// time.
std::function<WorkerPoolOptions::CpusOfGroups(const WorkerPoolOptions::CpusOfGroups& now,
                                              const std::vector<int>& allowed)>
worker_placer(const TakenCores& taken);

}  // namespace tandem
