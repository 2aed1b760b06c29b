#include "tools/setup/handoff_setup.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/log/log.h"
#include "base/onednn/matmul.h"
#include "cpu_lora/topology/plan/pin_plan.h"
#include "cpu_lora/topology/plan/reader_plan.h"
#include "cpu_lora/worker_pool/worker_pool.h"
#include "tools/setup/profile_costs.h"

namespace tandem {
namespace {

// Makes a group of workers for each node of the plan, and chooses cores for threads that read
// adapters.
void follow_plan(const PinPlan& plan, const DeviceInfo& device, HandoffOptions& options) {
  // Cores that workers share with the engine do not count as the engine's own.
  const std::vector<int> of_workers = plan.worker_cpus();
  std::ranges::copy_if(plan.engine_cpus, std::back_inserter(options.engine_cpus), [&](int cpu) {
    return std::ranges::find(of_workers, cpu) == of_workers.end();
  });
  // A host device computes on the engine's cores. Readers pinned to them would wait for its
  // threads, and so would threads of two engines that are pinned to the same cores.
  const bool apart = device.is_cuda && !plan.engine_cpus.empty() && !plan.shares_engine_cpus;
  if (apart) options.readers = plan_readers(plan);
  for (const PinPlan::Workers& workers : plan.workers) {
    options.groups.push_back({.node = workers.node, .cpus = workers.cpus});
  }
}

// Logs why cold adapters wait for their load here although the mode allows workers to compute them.
void tell_of_no_workers(const EngineSettings& settings, const DeviceInfo& device) {
  if (settings.cpu_workers >= 0) return;  // the user chose the number, or the plan's notes say why
  if (!device.is_cuda) {
    log::info("no CPU workers on the host device, which computes on the same cores (cpu_workers)");
    return;
  }
  log::warning(
      "no CPU workers, adapter_mode {} works as pipelined: the cores that this engine may use are "
      "too few beside its own threads; give this process more, name some in worker_cpus, or say "
      "cpu_workers",
      to_string(settings.options.adapter_mode));
}

}  // namespace

Result<HandoffOptions> choose_handoff(const EngineSettings& settings, const ModelSpec& spec,
                                      DType dtype, const DeviceInfo& device,
                                      const std::string& model_name, const PinPlan& plan) {
  HandoffOptions options = settings.options.handoff;
  if (hands_over(settings.options.adapter_mode)) {
    TANDEM_ASSIGN(options.costs, choose_costs(settings, spec, dtype, device));
  }
  // Set even without workers: routers and pickers are given the cost of a cold start.
  if (settings.link_gbps > 0) {
    options.costs.link_bytes_per_s =
        std::min(options.costs.link_bytes_per_s, settings.link_gbps * 1e9);
  }
  if (settings.cost_error != 1) options.costs = options.costs.slowed(settings.cost_error);
  if (!hands_over(settings.options.adapter_mode)) return options;
  options.model_name = model_name;
  options.start_workers = WorkerPool::start;
  if (plan.workers.empty()) {
    tell_of_no_workers(settings, device);
  } else {
    follow_plan(plan, device, options);
  }
  if (options.groups.size() > kMaxMailboxes) {
    return invalid(
        "the CPU workers' cores are on {} NUMA nodes, more than the {} that are possible: name "
        "cores of fewer nodes in worker_cpus",
        options.groups.size(), kMaxMailboxes);
  }
  // Each mailbox has room for the workers that `tandem pin apply` may add to those that start here.
  std::size_t workers = 0;
  for (HandoffOptions::Group& group : options.groups) {
    workers += group.cpus.size();
    group.spare_worker_slots = std::max(0, kMaxWorkerSlots - static_cast<int>(group.cpus.size()));
  }
  if (workers > 0) {
    const bool amx = dtype == DType::bf16 && has_fast_bf16_matmul();
    log::info("{} CPU worker{} for cold adapters, {}", workers, workers == 1 ? "" : "s",
              amx ? "with AMX" : "in f32, without AMX");
  }
  return options;
}

}  // namespace tandem
