#include "tools/setup/handoff_setup.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/onednn/matmul.h"
#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/named_plan.h"
#include "cpu_lora/topology/pin_plan.h"
#include "cpu_lora/topology/reader_plan.h"
#include "cpu_lora/topology/topology.h"
#include "cpu_lora/worker_pool/worker_pool.h"
#include "shm/control.h"
#include "tools/cli/machine.h"
#include "tools/setup/engine_setup.h"
#include "tools/setup/gpus.h"
#include "tools/setup/profile_costs.h"

namespace tandem {
namespace {

// The engine's own threads and the system want some; more than this many workers were not measured
// to help one GPU. An adapter's rows are for the workers of one node alone, so that each node at
// which GPUs are has so many.
constexpr std::int64_t kCoresLeft = 4;
constexpr std::int64_t kMostChosen = 12;

bool has_workers(const EngineSettings& settings) {
  return hands_over(settings.mode());
}

// For the GPUs of `pin`.
Result<std::int64_t> choose_count(const EngineSettings& settings, const MachineMap& machine,
                                  const PinOptions& pin) {
  TANDEM_ASSIGN(const std::vector<Core> cores, read_topology());
  const auto count = static_cast<std::int64_t>(cores.size());
  const auto places = static_cast<std::int64_t>(places_of(machine, pin.gpus).size());
  const std::int64_t most = kMostChosen * std::max<std::int64_t>(places, 1);
  const std::int64_t chosen = std::clamp<std::int64_t>(count - kCoresLeft, 0, most);
  if (chosen == 0) {
    log::warning(
        "no CPU workers: {} cores are too few beside the engine, which wants {}; adapter_mode {} "
        "works as pipelined (cpu_workers)",
        count, kCoresLeft, settings.adapter_mode);
  }
  return chosen;
}

// Whether another engine on this machine keeps one of these cpus for itself.
bool are_others(const std::vector<int>& cpus) {
  for (const int pid : list_engines()) {
    if (pid == ::getpid()) continue;
    const Result<ControlInfo> other = read_control(pid);
    if (!other || std::ranges::find_first_of(cpus, other->engine_cpus) == cpus.end()) continue;
    log::warning(
        "the engine of process {} keeps cpus {}, too: threads of this one run where the kernel "
        "likes them, slower from disk; give each engine cores of its own (taskset -c LIST, or cpus "
        "and worker_cpus)",
        pid, format_id_list(other->engine_cpus));
    return true;
  }
  return false;
}

// A group for each of the plan's nodes, and cores for threads that read adapters.
void follow_plan(const PinPlan& plan, const DeviceInfo& device, HandoffOptions& options) {
  options.engine_cpus = plan.engine_cpus;
  // A host device computes on the engine's cores. Threads of two engines that are pinned to the
  // same ones would wait for each other.
  const bool apart = device.is_cuda && !plan.engine_cpus.empty() && !are_others(plan.engine_cpus);
  if (apart) options.readers = plan_readers(plan);
  for (const PinPlan::Workers& workers : plan.workers) {
    options.groups.push_back({.node = workers.node, .cpus = workers.cpus});
  }
}

Status follow_names(const EngineSettings& settings, const DeviceInfo& device,
                    HandoffOptions& options) {
  TANDEM_ASSIGN(const MachineMap machine, read_machine());
  TANDEM_ASSIGN(const std::vector<int> workers, parse_cpus(settings.worker_cpus, "worker_cpus"));
  std::vector<int> engine;
  if (!settings.cpus.empty()) {
    TANDEM_ASSIGN(engine, parse_cpus(settings.cpus));
  }
  TANDEM_ASSIGN(const PinPlan plan, named_plan(machine, workers, engine));
  if (device.is_cuda) {  // what a host device shares is told for all its threads
    for (const std::string& note : plan.notes) log::warning("{}", note);
  }
  follow_plan(plan, device, options);
  return {};
}

Status plan_groups(const EngineSettings& settings, const DeviceInfo& device,
                   HandoffOptions& options) {
  if (settings.cpu_workers < 0 && !device.is_cuda) {
    log::info("no CPU workers on the host device, which computes on the same cores (cpu_workers)");
    return {};
  }
  if (settings.cpu_workers == 0) return {};
  TANDEM_ASSIGN(const MachineMap machine, read_machine());
  TANDEM_ASSIGN(PinOptions pin, choose_pinning(settings, device.is_cuda, machine));
  std::int64_t count = settings.cpu_workers;
  if (count < 0) {
    TANDEM_ASSIGN(count, choose_count(settings, machine, pin));
  }
  if (count == 0) return {};
  pin.workers = static_cast<int>(count);
  TANDEM_ASSIGN(const PinPlan plan, plan_pinning(machine, pin));
  if (plan.workers.empty()) {
    log::warning(
        "no CPU workers, adapter_mode {} works as pipelined: {}; give this process more cores, or "
        "name some in worker_cpus that the engine's threads can share",
        settings.adapter_mode, fmt::join(plan.notes, "; "));
    return {};
  }
  for (const std::string& note : plan.notes) log::warning("{}", note);
  follow_plan(plan, device, options);
  return {};
}

// Of a host device: its threads and workers wait for each other on a core that both have.
Status tell_of_shared_cores(const EngineSettings& settings, const HandoffOptions& options) {
  TANDEM_ASSIGN(const HostDeviceOptions host, choose_host_options(settings));
  std::vector<int> shared;
  for (const HandoffOptions::Group& group : options.groups) {
    std::copy_if(group.cpus.begin(), group.cpus.end(), std::back_inserter(shared), [&](int cpu) {
      return std::find(host.cpus.begin(), host.cpus.end(), cpu) != host.cpus.end();
    });
  }
  if (shared.empty()) return {};
  log::warning(
      "cpus {} are both the engine's (cpus) and CPU workers' (worker_cpus), and one waits for the "
      "other: have fewer workers or threads, or cores that `tandem pin plan` shows",
      format_id_list(shared));
  return {};
}

}  // namespace

Result<PinOptions> choose_pinning(const EngineSettings& settings, bool on_gpu,
                                  const MachineMap& machine) {
  PinOptions pin;
  pin.host_device = !on_gpu;
  if (on_gpu) {
    TANDEM_ASSIGN(pin.gpus, chosen_gpus(settings));
    std::erase_if(pin.gpus, [&](int gpu) {  // PCI may show fewer than the driver
      return static_cast<std::size_t>(gpu) >= machine.gpus.size();
    });
  }
  return pin;
}

Result<HandoffOptions> choose_handoff(const EngineSettings& settings, const ModelConfig& config,
                                      DType dtype, const DeviceInfo& device,
                                      const std::string& model_name) {
  HandoffOptions options;
  if (has_workers(settings)) {
    TANDEM_ASSIGN(options.costs, choose_costs(settings, config, dtype, device));
  }
  // Also without workers: routers and pickers are told what a cold start takes.
  if (settings.link_gbps > 0) {
    options.costs.link_bytes_per_s =
        std::min(options.costs.link_bytes_per_s, settings.link_gbps * 1e9);
  }
  if (settings.cost_error != 1) options.costs = options.costs.slowed(settings.cost_error);
  if (!has_workers(settings)) return options;
  options.max_rows = static_cast<std::int32_t>(settings.handoff_tokens);
  options.deadline_us = static_cast<std::uint32_t>(settings.handoff_deadline_ms * 1000);
  options.spin_ms = settings.worker_spin_ms;
  options.model_name = model_name;
  options.start_workers = WorkerPool::start;
  if (!settings.worker_cpus.empty() && settings.cpu_workers != 0) {
    TANDEM_TRY(follow_names(settings, device, options));
  } else {
    TANDEM_TRY(plan_groups(settings, device, options));
  }
  if (options.groups.size() > kMaxMailboxes) {
    return invalid(
        "CPU workers are to be on {} NUMA nodes, and on {} they can be: name cores of "
        "fewer nodes in worker_cpus",
        options.groups.size(), kMaxMailboxes);
  }
  // A mailbox has room for workers that `tandem pin apply` starts beside these.
  std::size_t workers = 0;
  for (HandoffOptions::Group& group : options.groups) {
    workers += group.cpus.size();
    group.spare_seats = std::max(0, kMaxSeats - static_cast<int>(group.cpus.size()));
  }
  if (workers > 0) {
    const bool amx = dtype == DType::bf16 && has_fast_bf16_matmul();
    log::info("{} CPU worker{} for cold adapters, {}", workers, workers == 1 ? "" : "s",
              amx ? "with AMX" : "in f32, without AMX");
  }
  if (!device.is_cuda) TANDEM_TRY(tell_of_shared_cores(settings, options));
  return options;
}

Result<std::vector<int>> host_worker_cpus(const EngineSettings& settings) {
  if (!has_workers(settings) || settings.cpu_workers == 0) return std::vector<int>();
  if (!settings.worker_cpus.empty()) return parse_cpus(settings.worker_cpus, "worker_cpus");
  if (settings.cpu_workers < 0) return std::vector<int>();
  TANDEM_ASSIGN(const MachineMap machine, read_machine());
  TANDEM_ASSIGN(PinOptions pin, choose_pinning(settings, false, machine));
  pin.workers = static_cast<int>(settings.cpu_workers);
  TANDEM_ASSIGN(const PinPlan plan, plan_pinning(machine, pin));
  return plan.worker_cpus();
}

}  // namespace tandem
