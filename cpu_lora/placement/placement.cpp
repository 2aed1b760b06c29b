#include "cpu_lora/placement/placement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cpu_lora/placement/elsewhere.h"

namespace tandem {
namespace {

constexpr std::size_t kSampledPages = 4096;
// A few pages on other nodes are normal: the kernel places them, for example by the first thread
// that touched them or because a node is full.
constexpr double kShareOfRegion = 0.9;
constexpr double kShareOfOwn = 0.5;

ObservedRegion observe_region(int group, const char* what, const ShmRegion& region) {
  ObservedRegion seen;
  seen.group = group;
  seen.what = what;
  seen.name = region.name();
  Result<PagesByNode> pages = find_pages(region.data(), region.bytes(), kSampledPages);
  if (pages) {
    seen.pages = *std::move(pages);
  } else {
    seen.problem = pages.status().message();
  }
  return seen;
}

ObservedWorker observe_worker(int group, int index, const WorkerSlot& worker_slot, int meant_cpu) {
  ObservedWorker worker;
  worker.group = group;
  worker.worker_slot = index;
  // relaxed loads: a worker that is just taking its slot may be read half written.
  worker.pid = static_cast<int>(worker_slot.pid.load(std::memory_order_relaxed));
  worker.state = worker_slot.state.load(std::memory_order_relaxed);
  worker.claimed_cpu = static_cast<std::int32_t>(worker_slot.cpu.load(std::memory_order_relaxed));
  worker.meant_cpu = meant_cpu;
  if (worker.pid <= 0) return worker;
  const Result<ThreadPlace> place = read_thread_place(worker.pid, worker.pid);
  if (!place) return worker;
  worker.alive = true;
  worker.allowed = place->allowed;
  worker.last_cpu = place->last_cpu;
  if (Result<PagesByNode> pages = read_own_pages(worker.pid)) worker.own_pages = *std::move(pages);
  return worker;
}

Status observe_group(int index, const ControlInfo::Group& group, ObservedEngine& engine) {
  TANDEM_ASSIGN(const Mailbox mailbox, Mailbox::open(group.inbox, group.outbox));
  const int worker_slots = static_cast<int>(mailbox.shape().num_worker_slots);
  for (int i = 0; i < worker_slots; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int meant = at < group.cpus.size() ? group.cpus[at] : -1;
    ObservedWorker worker = observe_worker(index, i, mailbox.worker_slot(i), meant);
    if (worker.pid != 0 || meant >= 0) engine.workers.push_back(std::move(worker));
  }
  engine.regions.push_back(observe_region(index, "inbox", mailbox.inbox_region()));
  engine.regions.push_back(observe_region(index, "outbox", mailbox.outbox_region()));
  const Result<ShmRegion> arena = ShmRegion::open(group.arena, ShmRegion::Access::read_only);
  if (arena) {
    engine.regions.push_back(observe_region(index, "arena", *arena));
  } else {
    ObservedRegion missing;
    missing.group = index;
    missing.what = "arena";
    missing.name = group.arena;
    missing.problem = arena.status().message();
    engine.regions.push_back(std::move(missing));
  }
  return {};
}

int memory_node_of(const MachineMap& machine, int cpu) {
  const MachineCore* core = machine.find_core(cpu);
  return core == nullptr ? -1 : machine.memory_node_of(core->node);
}

class Judge {
 public:
  Judge(const ObservedEngine& engine, const MachineMap& machine)
      : engine_(engine), machine_(machine) {}

  std::vector<Drift> judge() {
    for (const ObservedWorker& worker : engine_.workers) judge_worker(worker);
    judge_threads();
    for (const ObservedRegion& region : engine_.regions) judge_region(region);
    return std::move(found_);
  }

 private:
  void add(std::string what, std::string remedy) {
    found_.push_back({std::move(what), std::move(remedy)});
  }
  const ControlInfo::Group& group(int index) const {
    return engine_.info.groups[static_cast<std::size_t>(index)];
  }
  void judge_worker(const ObservedWorker& worker);
  void judge_cpu(const ObservedWorker& worker, const std::string& name, int cpu);
  // Whether the engine's threads may run on the cpu; some of them are not pinned. True if the
  // threads' cpus are unknown.
  bool may_use(int cpu) const {
    bool any = false;
    for (const ThreadPlace& thread : engine_.threads) {
      any = any || !thread.allowed.empty();
      if (std::ranges::find(thread.allowed, cpu) != thread.allowed.end()) return true;
    }
    return !any;
  }
  void judge_threads();
  void judge_region(const ObservedRegion& region);

  const ObservedEngine& engine_;
  const MachineMap& machine_;
  std::vector<Drift> found_;
  std::map<int, int> worker_on_;  // cpu to pid
};

// These threads share cores with workers, and one of the two makes room (ReaderPlan).
bool reads_adapters(const ThreadPlace& thread) {
  return thread.name == "adapter disk" || thread.name.starts_with("loader-");
}

void Judge::judge_worker(const ObservedWorker& worker) {
  const int engine = engine_.info.pid;
  const std::string start = fmt::format("tandem pin apply --engine {}", engine);
  if (worker.pid <= 0) {
    add(fmt::format("worker slot {} of group {} has no worker; the engine means one on cpu {}",
                    worker.worker_slot, worker.group, worker.meant_cpu),
        start);
    return;
  }
  const std::string name = fmt::format("worker {} (worker slot {} of group {})", worker.pid,
                                       worker.worker_slot, worker.group);
  if (!worker.alive) {
    add(fmt::format("{} has ended and its worker slot is still taken", name),
        "the engine clears it within seconds; look again, then " + start);
    return;
  }
  const int cpu = worker.claimed_cpu >= 0 ? worker.claimed_cpu : worker.meant_cpu;
  if (worker.meant_cpu >= 0 && worker.claimed_cpu != worker.meant_cpu) {
    add(fmt::format("{} says cpu {}, the engine means cpu {}", name, worker.claimed_cpu,
                    worker.meant_cpu),
        fmt::format("kill {}: the engine starts it again on its own cpu", worker.pid));
  }
  if (cpu < 0) {
    // A group without a node whose workers have no intended cpu may run anywhere.
    if (group(worker.group).node < 0) return;
    add(fmt::format("{} is bound to no cpu", name),
        fmt::format("taskset -cp CPU {}, with a cpu of node {}", worker.pid,
                    group(worker.group).node));
    return;
  }
  if (worker.allowed != std::vector<int>{cpu} && !may_use(cpu)) {
    add(fmt::format("{} is meant for cpu {}, on which the engine's processes may not run any more",
                    name, cpu),
        "within seconds the engine places it anew: look again; else start the engine again");
    return;
  }
  if (worker.allowed != std::vector<int>{cpu}) {
    add(fmt::format("{} may run on {} instead of cpu {} alone, and was last seen on {}", name,
                    format_id_list(worker.allowed), cpu, worker.last_cpu),
        fmt::format("taskset -cp {} {}", cpu, worker.pid));
  }
  judge_cpu(worker, name, cpu);

  const int node = group(worker.group).node;
  if (node >= 0 && share_on(worker.own_pages, node) < kShareOfOwn) {
    add(fmt::format("{} has {:.0f} % of its own memory on node {}", name,
                    100 * share_on(worker.own_pages, node), node),
        fmt::format("kill {}: the engine starts it again with memory of its node", worker.pid));
  }
}

// Reports a cpu that another thread uses or that is not on the group's node.
void Judge::judge_cpu(const ObservedWorker& worker, const std::string& name, int cpu) {
  const std::vector<int>& kept = engine_.info.engine_cpus;
  if (std::find(kept.begin(), kept.end(), cpu) != kept.end()) {
    add(fmt::format("{} runs on cpu {}, which the engine keeps for itself", name, cpu),
        fmt::format("taskset -cp CPU {}, with a cpu that `tandem pin plan` gives to workers",
                    worker.pid));
  }
  const auto [other, first] = worker_on_.emplace(cpu, worker.pid);
  if (!first) {
    add(fmt::format("{} shares cpu {} with worker {}", name, cpu, other->second),
        fmt::format("taskset -cp CPU {}, with a cpu of its own", worker.pid));
  }
  const int node = group(worker.group).node;
  const int there = memory_node_of(machine_, cpu);
  if (node >= 0 && there >= 0 && node != there) {
    add(fmt::format(
            "{} runs on cpu {} of node {}, and its mailbox and weights are meant for node {}", name,
            cpu, there, node),
        fmt::format("taskset -cp CPU {}, with a cpu of node {}", worker.pid, node));
  }
}

// Most of the engine's threads may run anywhere. The restricted ones must be allowed a cpu without
// a worker, or one of the engine's own cpus if these are known.
void Judge::judge_threads() {
  const std::vector<int>& kept = engine_.info.engine_cpus;
  const auto right = [&](int cpu) {
    return kept.empty() ? worker_on_.count(cpu) == 0
                        : std::find(kept.begin(), kept.end(), cpu) != kept.end();
  };
  std::map<std::vector<int>, std::vector<int>> astray;  // by the cpus that they may run on
  for (const ThreadPlace& thread : engine_.threads) {
    if (reads_adapters(thread)) continue;
    if (std::none_of(thread.allowed.begin(), thread.allowed.end(), right)) {
      astray[thread.allowed].push_back(thread.tid);
    }
  }
  for (const auto& [allowed, tids] : astray) {
    add(fmt::format("{} of the engine's threads ({}) may run on cpus {} alone, {}", tids.size(),
                    fmt::join(tids, ", "), format_id_list(allowed),
                    kept.empty() ? "which are workers'"
                                 : "none of the " + format_id_list(kept) + " that it keeps"),
        fmt::format("taskset -cp {} {}{}", kept.empty() ? "CPUS" : format_id_list(kept),
                    tids.front(), tids.size() > 1 ? ", and the others" : ""));
  }
}

void Judge::judge_region(const ObservedRegion& region) {
  const int node = group(region.group).node;
  if (node < 0 || !region.problem.empty()) return;
  const double share = share_on(region.pages, node);
  if (share >= kShareOfRegion) return;
  const auto most =
      std::max_element(region.pages.begin(), region.pages.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  add(fmt::format("the {} of group {} has {:.0f} % of its pages on node {}", region.what,
                  region.group, 100 * share, node),
      fmt::format("migratepages {} {} {}, or free memory on node {} and start the engine again",
                  engine_.info.pid, most->first, node, node));
}

}  // namespace

Result<ObservedEngine> observe_engine(int pid) {
  ObservedEngine engine;
  Result<ControlInfo> info = read_control(pid);
  if (!info && info.status().code() == StatusCode::not_found) return explain_missing_region(pid);
  if (!info) return info.status();
  engine.info = *std::move(info);
  TANDEM_TRY(check_maker(pid));
  Result<std::vector<ThreadPlace>> threads = read_thread_places(pid);
  if (!threads) return check_maker(pid);
  engine.threads = *std::move(threads);
  for (std::size_t i = 0; i < engine.info.groups.size(); ++i) {
    TANDEM_TRY(observe_group(static_cast<int>(i), engine.info.groups[i], engine)
                   .with_context(fmt::format("engine {}, group {}", pid, i)));
  }
  return engine;
}

std::vector<Drift> find_drift(const ObservedEngine& engine, const MachineMap& machine) {
  return Judge(engine, machine).judge();
}

std::vector<Drift> find_overlaps(int pid, const std::vector<ClaimedCores>& claims) {
  std::vector<Drift> found;
  const auto own = std::ranges::find(claims, pid, &ClaimedCores::pid);
  if (own == claims.end()) return found;
  for (const ClaimedCores& other : claims) {
    if (&other == &*own) continue;
    const std::vector<int> shared = common_ids(own->cpus(), other.cpus());
    if (shared.empty()) continue;
    found.push_back(
        {fmt::format("cpus {} are engine {}'s ({}), too", format_id_list(shared), other.pid,
                     other.model),
         "start one of them again with fewer cores (--cpu-workers, --threads) or with cores of its "
         "own (--cpus, --worker-cpus; `tandem pin plan` shows some)"});
  }
  return found;
}

double share_on(const PagesByNode& pages, int node) {
  std::uint64_t all = 0;
  std::uint64_t there = 0;
  for (const auto& [at, count] : pages) {
    all += count;
    if (at == node) there += count;
  }
  return all == 0 ? 1 : static_cast<double>(there) / static_cast<double>(all);
}

}  // namespace tandem
