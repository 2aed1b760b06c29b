#include "tools/setup/core_setup.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/log/log.h"
#include "cpu_lora/topology/plan/named_plan.h"
#include "cpu_lora/topology/plan/worker_moves.h"
#include "tools/cli/machine.h"
#include "tools/setup/gpus.h"

namespace tandem {
namespace {

constexpr std::chrono::seconds kPatience(2);

bool has_workers(const EngineSettings& settings) {
  return hands_over(settings.options.adapter_mode) && settings.cpu_workers != 0;
}

std::size_t num_usable_cores(const MachineMap& machine) {
  return static_cast<std::size_t>(std::ranges::count_if(
      machine.cores, [](const MachineCore& core) { return !core.usable().empty(); }));
}

std::vector<int> usable_cpus(const MachineMap& machine) {
  std::vector<int> cpus;
  for (const MachineCore& core : machine.cores)
    std::ranges::copy(core.usable(), std::back_inserter(cpus));
  std::ranges::sort(cpus);
  return cpus;
}

Result<std::vector<int>> parse_if_any(const std::string& cpus, const char* setting,
                                      const MachineMap& machine) {
  if (cpus.empty()) return std::vector<int>{};
  // For this machine the kernel's list of cpus counts, because hwloc may not know all of them.
  if (machine.source == kThisMachine) return parse_cpus(cpus, setting);
  return parse_cpus(cpus, setting, usable_cpus(machine));
}

// Returns the cores that the user named, as a plan.
Result<PinPlan> named_cores(const EngineSettings& settings, bool on_gpu,
                            const MachineMap& machine) {
  std::vector<int> workers;
  if (has_workers(settings)) {
    TANDEM_ASSIGN(workers, parse_if_any(settings.worker_cpus, "worker_cpus", machine));
  }
  TANDEM_ASSIGN(const std::vector<int> engine, parse_if_any(settings.cpus, "cpus", machine));
  TANDEM_ASSIGN(PinPlan plan, named_plan(machine, workers, engine));
  plan.host_device = !on_gpu;
  if (on_gpu || settings.cpus.empty()) return plan;
  // The threads of a host device compute on all cores named for them, even if workers use these,
  // too.
  plan.engine_cpus = engine;
  plan.notes.clear();
  const std::vector<int> shared = common_ids(workers, engine);
  if (!shared.empty()) {
    plan.notes.push_back(fmt::format(
        "cpus {} are both the engine's (cpus) and CPU workers' (worker_cpus), and one waits for "
        "the other: have fewer workers or threads, or cores that `tandem pin plan` shows",
        format_id_list(shared)));
  }
  return plan;
}

// The user named only one of cpus and worker_cpus, which `plan` has. Chooses the other around it,
// or on the same cores if no others are left.
Status complete(const EngineSettings& settings, bool on_gpu, const MachineMap& machine,
                const std::vector<CoreClaim>& claims, bool names_workers, PinPlan& plan) {
  TANDEM_ASSIGN(PinOptions pin, choose_pinning(settings, on_gpu, machine));
  if (!names_workers && pin.workers == 0) return {};
  pin.claims = claims;
  if (names_workers) pin.workers = 0;
  pin.exclude = names_workers ? plan.worker_cpus() : plan.engine_cpus;
  Result<PinPlan> rest = plan_pinning(machine, pin);
  if (!rest) {
    const std::string whose = names_workers ? "CPU workers' (worker_cpus)" : "the engine's (cpus)";
    pin.exclude.clear();
    rest = plan_pinning(machine, pin);
    if (!rest) return rest.status();
    const bool pinned = on_gpu || settings.pin;
    if (pinned)
      plan.notes.push_back(fmt::format(
          "cpus {} are both the engine's and CPU workers', for all are {}, and one waits for the "
          "other: have fewer workers or threads, or cores that `tandem pin plan` shows",
          format_id_list(names_workers ? plan.worker_cpus() : plan.engine_cpus), whose));
  }
  if (names_workers) {
    plan.engine_cpus = rest->engine_cpus;
    plan.shares_engine_cpus = rest->shares_engine_cpus;
  } else {
    plan.workers = rest->workers;
  }
  std::ranges::move(rest->notes, std::back_inserter(plan.notes));
  return {};
}

// Adds a note for each engine that has claimed some of the cores that the user named.
void tell_of_claims(const std::vector<CoreClaim>& claims, PinPlan& plan) {
  for (const CoreClaim& claim : claims) {
    const std::vector<int> theirs = claim.cpus();
    plan.shares_engine_cpus =
        plan.shares_engine_cpus || !common_ids(plan.engine_cpus, theirs).empty();
    const std::vector<int> shared = common_ids(plan.cpus(), theirs);
    if (shared.empty()) continue;
    plan.notes.push_back(
        fmt::format("cpus {} are named here (cpus, worker_cpus) and are shared with {}: both are "
                    "slower; give each engine cores of its own (`tandem pin plan`)",
                    format_id_list(shared), claim.whose));
  }
}

bool are_pinned(const EngineSettings& settings, const PinPlan& plan) {
  return !plan.host_device || (settings.pin && !plan.shares_engine_cpus);
}

void tell(const EngineSettings& settings, const PinPlan& plan) {
  const std::vector<int> workers = plan.worker_cpus();
  log::info(
      "cores: {} for the engine{}",
      are_pinned(settings, plan) ? "cpus " + format_id_list(plan.engine_cpus) : "any",
      workers.empty() ? "" : fmt::format(", cpus {} for CPU workers", format_id_list(workers)));
  for (const std::string& fact : plan.facts) log::info("{}", fact);
  for (const std::string& note : plan.notes) log::warning("{}", note);
}

void tell_of_moves(const std::vector<int>& allowed, const std::vector<int>& engine_cpus,
                   const WorkerPoolOptions::CpusOfGroups& now,
                   const WorkerPoolOptions::CpusOfGroups& moved) {
  std::vector<std::string> moves;
  for (std::size_t g = 0; g < now.size(); ++g) {
    for (std::size_t i = 0; i < now[g].size(); ++i) {
      const int from = now[g][i], to = moved[g][i];
      if (from == to) continue;
      moves.push_back(from < 0 ? fmt::format("one starts on cpu {}", to)
                      : to < 0 ? fmt::format("the one on cpu {} ends, as no core is left", from)
                               : fmt::format("the one on cpu {} moves to cpu {}", from, to));
    }
  }
  log::warning("this process may run on cpus {} now; its CPU workers: {}", format_id_list(allowed),
               moves.empty() ? "all stay" : fmt::format("{}", fmt::join(moves, ", ")));
  std::vector<int> gone;
  std::ranges::copy_if(engine_cpus, std::back_inserter(gone),
                       [&](int cpu) { return std::ranges::find(allowed, cpu) == allowed.end(); });
  if (gone.empty()) return;
  log::warning(
      "the engine may no longer use cpus {}: its threads run where the kernel puts them; restart "
      "it to place them anew",
      format_id_list(gone));
}

}  // namespace

Result<PinOptions> choose_pinning(const EngineSettings& settings, bool on_gpu,
                                  const MachineMap& machine) {
  PinOptions pin;
  pin.host_device = !on_gpu;
  pin.slow_cores = settings.slow_cores;
  pin.workers = has_workers(settings) ? static_cast<int>(settings.cpu_workers) : 0;
  if (!on_gpu) {
    if (settings.threads > 0) pin.engine_cores = static_cast<int>(settings.threads);
    return pin;
  }
  TANDEM_ASSIGN(pin.gpus, chosen_gpus(settings));
  std::erase_if(pin.gpus, [&](int gpu) {  // the driver may have GPUs that PCI does not show
    return static_cast<std::size_t>(gpu) >= machine.gpus.size();
  });
  return pin;
}

Result<PinPlan> plan_cores(const EngineSettings& settings, bool on_gpu, const MachineMap& machine,
                           const std::vector<CoreClaim>& claims) {
  const bool names_workers = has_workers(settings) && !settings.worker_cpus.empty();
  if (names_workers || !settings.cpus.empty()) {
    TANDEM_ASSIGN(PinPlan plan, named_cores(settings, on_gpu, machine));
    if (names_workers && (on_gpu || !settings.cpus.empty())) {
      tell_of_claims(claims, plan);
      return plan;
    }
    TANDEM_TRY(complete(settings, on_gpu, machine, claims, names_workers, plan));
    tell_of_claims(claims, plan);
    return plan;
  }
  TANDEM_ASSIGN(PinOptions pin, choose_pinning(settings, on_gpu, machine));
  pin.claims = claims;
  if (!on_gpu && settings.pin && settings.threads > 0) {
    const auto threads = static_cast<std::size_t>(settings.threads);
    pin.smt = threads > num_usable_cores(machine);
    if (threads > usable_cpus(machine).size()) {
      return invalid(
          "threads: {} threads cannot have a core each, there are {}; use fewer or --no-pin",
          threads, usable_cpus(machine).size());
    }
    if (pin.smt) pin.slow_cores = true;
  }
  return plan_pinning(machine, pin);
}

std::vector<CoreClaim> claims_of_others() {
  std::vector<CoreClaim> claims;
  for (ClaimedCores& claimed : read_core_claims()) {
    claims.push_back({fmt::format("engine {} ({})", claimed.pid, claimed.model),
                      std::move(claimed.engine_cpus), std::move(claimed.worker_cpus)});
  }
  return claims;
}

HostDeviceOptions host_options_of(const EngineSettings& settings, const PinPlan& plan) {
  HostDeviceOptions options;
  options.link_gbps = settings.link_gbps;
  options.num_threads = settings.threads > 0 ? static_cast<int>(settings.threads)
                                             : static_cast<int>(plan.engine_cpus.size());
  options.num_threads = std::max(options.num_threads, 1);
  // Pins threads unless another engine computes on the same cores: threads of two engines that are
  // pinned to the same cores would wait for each other.
  if (are_pinned(settings, plan)) {
    options.cpus = plan.engine_cpus;
    options.cpus.resize(
        std::min(options.cpus.size(), static_cast<std::size_t>(options.num_threads)));
  }
  return options;
}

Result<TakenCores> take_cores(const EngineSettings& settings, bool on_gpu,
                              const MachineMap& machine, const std::string& model_name) {
  TakenCores taken;
  if (!settings.claim_cores) {
    TANDEM_ASSIGN(taken.plan, plan_cores(settings, on_gpu, machine));
    tell(settings, taken.plan);
    return taken;
  }
  const PlanningTurn turn(kPatience);
  if (!turn.has_lock())
    log::info(
        "cores are planned without the lock that stops other engines from planning at the same "
        "time");
  TANDEM_ASSIGN(taken.plan, plan_cores(settings, on_gpu, machine, claims_of_others()));
  ClaimedCores& claim = taken.claimed;
  claim.model = model_name;
  // Threads that are not pinned use every engine's cores, so there is nothing to claim for them.
  if (are_pinned(settings, taken.plan)) claim.engine_cpus = taken.plan.engine_cpus;
  claim.worker_cpus = taken.plan.worker_cpus();
  Result<CoreClaimHolder> holder = CoreClaimHolder::create(claim);
  if (holder) {
    taken.claim = std::make_shared<CoreClaimHolder>(*std::move(holder));
  } else {
    log::info("other engines are not told which cores are taken here: {}",
              holder.status().message());
  }
  tell(settings, taken.plan);
  return taken;
}

std::function<WorkerPoolOptions::CpusOfGroups(const WorkerPoolOptions::CpusOfGroups&,
                                              const std::vector<int>&)>
worker_placer(const TakenCores& taken) {
  std::vector<int> nodes;
  for (const PinPlan::Workers& group : taken.plan.workers) nodes.push_back(group.node);
  return
      [nodes, engine_cpus = taken.plan.engine_cpus, claim = taken.claim, claimed = taken.claimed](
          const WorkerPoolOptions::CpusOfGroups& now, const std::vector<int>& allowed) mutable {
        MachineOptions here;
        here.gpus = false;
        here.allowed_cpus = allowed;
        const Result<MachineMap> machine = read_machine(here);
        if (!machine) {
          log::warning("this process may run on cpus {} now, and its CPU workers stay: {}",
                       format_id_list(allowed), machine.status().message());
          return now;
        }
        std::vector<SeatedWorkers> groups;
        for (std::size_t i = 0; i < now.size(); ++i) groups.push_back({nodes[i], now[i]});
        std::vector<CoreClaim> claims;
        if (claim != nullptr) claims = claims_of_others();
        WorkerPoolOptions::CpusOfGroups moved = move_workers(*machine, groups, engine_cpus, claims);
        tell_of_moves(allowed, engine_cpus, now, moved);
        claimed.worker_cpus.clear();
        for (const std::vector<int>& cpus : moved) {
          std::ranges::copy_if(cpus, std::back_inserter(claimed.worker_cpus),
                               [](int cpu) { return cpu >= 0; });
        }
        if (claim == nullptr) return moved;
        if (Result<CoreClaimHolder> holder = CoreClaimHolder::create(claimed)) {
          *claim = *std::move(holder);
        }
        return moved;
      };
}

}  // namespace tandem
