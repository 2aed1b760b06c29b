#include "cpu_lora/topology/pin_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// A hardware thread that may be given away.
struct Slot {
  int cpu = 0;
  int core = 0;      // position in the map
  int node = 0;      // whose memory it uses
  int rank = 0;      // among the usable threads of its core
  int distance = 0;  // of its node from the plan's: a position in the order of nodes
  int place = 0;     // in Planner::places; what is in none counts with the first
  bool isolated = false;
  bool near = false;  // workers may have it
  bool given = false;
};

struct Planner {
  const MachineMap& machine;
  const PinOptions& options;
  PinPlan plan;
  std::vector<Slot> slots;
  std::vector<int> home;                 // nodes that count as near
  std::vector<std::vector<int>> places;  // of the GPUs

  template <typename... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    plan.notes.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  int memory_node(int node) const { return machine.memory_node_of(node); }
  bool excluded(int cpu) const {
    return std::find(options.exclude.begin(), options.exclude.end(), cpu) != options.exclude.end();
  }
  template <typename Predicate>
  int count(Predicate&& predicate) const {
    return static_cast<int>(std::count_if(slots.begin(), slots.end(), predicate));
  }
  int on_node(int node) const {
    return count([&](const Slot& slot) { return slot.node == node; });
  }

  Status check_wishes() const;
  void find_slots();
  Status check_slots() const;
  void find_places();
  void choose_home();
  void order_slots();
  // Slots that may be the engine's, near ones and others; near ones that may not; and who gets how
  // many.
  struct Counts {
    int near = 0;
    int far_engine = 0;
    int near_isolated = 0;
    int engine = 0;
    int workers = 0;
  };
  Counts count_out() const;
  void take_places_by_turns(std::vector<Slot*>& order, const std::vector<bool>& of_engine) const;
  void give(const Counts& counts);
  void explain();
  void note_isolated();
  std::string remedies() const;
  Status run();
};

Status Planner::check_wishes() const {
  if (options.node >= 0 && machine.find_node(options.node) == nullptr) {
    return invalid("there is no node {}; nodes are {}", options.node,
                   format_id_list(machine.nodes.front().nearest));
  }
  for (const int gpu : options.gpus) {
    if (gpu >= 0 && gpu < static_cast<int>(machine.gpus.size())) continue;
    return invalid("there is no GPU {}; {}", gpu,
                   machine.gpus.empty() ? std::string("the machine shows none")
                                        : fmt::format("there are {}", machine.gpus.size()));
  }
  std::vector<int> known;
  for (const MachineCore& core : machine.cores) {
    for (const MachineThread& thread : core.threads) known.push_back(thread.cpu);
  }
  for (const int cpu : options.exclude) {
    if (std::find(known.begin(), known.end(), cpu) == known.end()) {
      return invalid("there is no cpu {} to exclude; cpus are {}", cpu, format_id_list(known));
    }
  }
  return {};
}

void Planner::find_slots() {
  for (std::size_t i = 0; i < machine.cores.size(); ++i) {
    const MachineCore& core = machine.cores[i];
    std::vector<Slot> found;
    bool barred = false;
    for (const MachineThread& thread : core.threads) {
      if (excluded(thread.cpu)) {
        // What keeps it busy would disturb its siblings as well.
        barred = true;
        continue;
      }
      if (thread.use != CpuUse::usable) continue;
      Slot slot;
      slot.cpu = thread.cpu;
      slot.core = static_cast<int>(i);
      slot.node = memory_node(core.node);
      slot.rank = static_cast<int>(found.size());
      slot.isolated = thread.isolated;
      found.push_back(slot);
    }
    if (found.empty() || (barred && !options.smt)) continue;
    if (!options.smt) {
      // One thread of each; an isolated one makes the core a worker's.
      const auto isolated =
          std::find_if(found.begin(), found.end(), [](const Slot& slot) { return slot.isolated; });
      Slot chosen = isolated == found.end() ? found.front() : *isolated;
      chosen.rank = 0;
      found = {chosen};
    }
    slots.insert(slots.end(), found.begin(), found.end());
  }
}

Status Planner::check_slots() const {
  if (!slots.empty() && count([](const Slot& slot) { return !slot.isolated; }) > 0) return {};
  std::vector<int> usable;
  for (const MachineCore& core : machine.cores) {
    const std::vector<int> cpus = core.usable();
    usable.insert(usable.end(), cpus.begin(), cpus.end());
  }
  if (usable.empty()) {
    return error(
        StatusCode::unavailable,
        "no core may be used: the cpuset and the affinity mask leave none of this machine");
  }
  if (slots.empty()) {
    return error(StatusCode::unavailable,
                 "no core is left: of the usable cpus {} all are excluded; exclude fewer",
                 format_id_list(usable));
  }
  return error(StatusCode::unavailable,
               "no core is left for the engine: the usable cpus {} are isolated (isolcpus) or "
               "excluded; start the engine with an affinity mask that has others, too (taskset -c)",
               format_id_list(usable));
}

void Planner::find_places() {
  places = places_of(machine, plan.gpus);
  for (const std::vector<int>& place : places) {
    for (const int node : place) {
      if (std::find(home.begin(), home.end(), node) == home.end()) home.push_back(node);
    }
    if (places.size() > 1 &&
        std::all_of(place.begin(), place.end(), [&](int node) { return on_node(node) == 0; })) {
      note("no core of node {}, where a GPU is, may be used: no workers are near that GPU",
           fmt::join(place, " and "));
    }
  }
  std::vector<int> unknown;
  for (const int gpu : plan.gpus) {
    if (machine.gpus[static_cast<std::size_t>(gpu)].nodes.empty()) unknown.push_back(gpu);
  }
  if (!unknown.empty() && machine.nodes.size() > 1) {
    note("the machine does not say at which node GPU {} is; --node N chooses one",
         format_id_list(unknown));
  }
}

void Planner::choose_home() {
  plan.host_device = options.host_device;
  plan.gpus = options.gpus;
  if (plan.gpus.empty() && !machine.gpus.empty() && !options.host_device) plan.gpus = {0};
  int wanted = options.node;
  if (wanted < 0) {
    find_places();
    const auto known = std::find_if(plan.gpus.begin(), plan.gpus.end(), [&](int gpu) {
      return !machine.gpus[static_cast<std::size_t>(gpu)].nodes.empty();
    });
    if (known != plan.gpus.end()) {
      wanted = machine.gpus[static_cast<std::size_t>(*known)].nodes.front();
    }
  }
  if (wanted < 0) {
    // The roomiest node, the first of several.
    int best = -1;
    for (const MachineNode& node : machine.nodes) {
      if (on_node(node.id) > best) {
        best = on_node(node.id);
        wanted = node.id;
      }
    }
  }
  if (memory_node(wanted) != wanted) {
    note("node {} has no memory of its own: node {}, the nearest that has, stands in for it",
         wanted, memory_node(wanted));
    wanted = memory_node(wanted);
  }
  if (home.empty()) home = {wanted};
  const auto empty = [&](int node) { return on_node(node) == 0; };
  if (std::all_of(home.begin(), home.end(), empty)) {
    const MachineNode* node = machine.find_node(wanted);
    TANDEM_CHECK(node != nullptr, "node {}", wanted);
    const auto nearest = std::find_if_not(node->nearest.begin(), node->nearest.end(), empty);
    TANDEM_CHECK(nearest != node->nearest.end(), "slots of no node");
    note("node {} has no usable core: node {} is the nearest that has", wanted, *nearest);
    wanted = *nearest;
    home = {wanted};
  } else if (empty(wanted)) {
    wanted = *std::find_if_not(home.begin(), home.end(), empty);
  }
  plan.node = wanted;
}

void Planner::order_slots() {
  std::vector<int> order = home;
  const MachineNode* node = machine.find_node(plan.node);
  for (const int next : node->nearest) {
    if (std::find(order.begin(), order.end(), next) == order.end()) order.push_back(next);
  }
  for (Slot& slot : slots) {
    slot.distance =
        static_cast<int>(std::find(order.begin(), order.end(), slot.node) - order.begin());
    slot.near = options.all_nodes || slot.distance < static_cast<int>(home.size());
    const auto place = std::find_if(places.begin(), places.end(), [&](const auto& nodes) {
      return std::find(nodes.begin(), nodes.end(), slot.node) != nodes.end();
    });
    slot.place = place == places.end() ? 0 : static_cast<int>(place - places.begin());
  }
}

// Among slots that are as good otherwise, the first of each place come first, then the second ones.
void Planner::take_places_by_turns(std::vector<Slot*>& order,
                                   const std::vector<bool>& of_engine) const {
  std::map<std::tuple<bool, int, int>, int> next;
  std::map<const Slot*, std::tuple<bool, int, int>> turns;
  for (const Slot* slot : order) {
    const bool shares = of_engine[static_cast<std::size_t>(slot->core)];
    turns[slot] = {shares, slot->rank, next[{shares, slot->rank, slot->place}]++};
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](const Slot* a, const Slot* b) { return turns[a] < turns[b]; });
}

// The engine's first, from the front; workers get the last of what is left.
void Planner::give(const Counts& counts) {
  std::vector<Slot*> order;
  for (Slot& slot : slots) {
    if (!slot.isolated && (slot.near || counts.far_engine > 0)) order.push_back(&slot);
  }
  std::stable_sort(order.begin(), order.end(), [](const Slot* a, const Slot* b) {
    return std::tuple(a->rank, a->distance, a->core) < std::tuple(b->rank, b->distance, b->core);
  });
  int near_quota = counts.near - std::max(0, counts.workers - counts.near_isolated);
  std::vector<bool> of_engine(machine.cores.size());
  for (Slot* slot : order) {
    if (static_cast<int>(plan.engine_cpus.size()) == counts.engine) break;
    if (slot->near && near_quota-- <= 0) continue;
    slot->given = true;
    of_engine[static_cast<std::size_t>(slot->core)] = true;
    plan.engine_cpus.push_back(slot->cpu);
  }
  std::sort(plan.engine_cpus.begin(), plan.engine_cpus.end());

  order.clear();
  for (Slot& slot : slots) {
    if (slot.near && !slot.given) order.push_back(&slot);
  }
  const auto key = [&](const Slot* slot) {
    return std::tuple(static_cast<bool>(of_engine[static_cast<std::size_t>(slot->core)]),
                      slot->rank, slot->distance, !slot->isolated, -slot->core);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Slot* a, const Slot* b) { return key(a) < key(b); });
  take_places_by_turns(order, of_engine);
  order.resize(std::min(order.size(), static_cast<std::size_t>(counts.workers)));
  std::stable_sort(order.begin(), order.end(),
                   [](const Slot* a, const Slot* b) { return a->distance < b->distance; });
  for (const Slot* slot : order) {
    if (plan.workers.empty() || plan.workers.back().node != slot->node) {
      plan.workers.push_back({slot->node, {}});
    }
    plan.workers.back().cpus.push_back(slot->cpu);
  }
  for (PinPlan::Workers& group : plan.workers) std::sort(group.cpus.begin(), group.cpus.end());
}

std::string Planner::remedies() const {
  std::string text;
  const bool others =
      std::any_of(slots.begin(), slots.end(), [](const Slot& s) { return !s.near; });
  if (others) text += "; --all-nodes allows further nodes";
  const bool siblings = std::any_of(machine.cores.begin(), machine.cores.end(),
                                    [](const MachineCore& c) { return c.usable().size() > 1; });
  if (siblings && !options.smt) text += "; --smt allows siblings";
  return text;
}

void Planner::note_isolated() {
  std::vector<int> used;
  std::vector<int> barred;
  for (const MachineCore& core : machine.cores) {
    for (const MachineThread& thread : core.threads) {
      if (!thread.isolated) continue;
      if (thread.use == CpuUse::outside_affinity) barred.push_back(thread.cpu);
    }
  }
  for (const PinPlan::Workers& group : plan.workers) {
    for (const int cpu : group.cpus) {
      const bool isolated = std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) {
        return slot.cpu == cpu && slot.isolated;
      });
      if (isolated) used.push_back(cpu);
    }
  }
  if (!used.empty()) {
    note("cpus {} are isolated (isolcpus): workers take them first, the engine never does",
         format_id_list(used));
  }
  if (!barred.empty()) {
    note(
        "cpus {} are isolated (isolcpus) and outside the affinity mask, so they stay idle; started "
        "with `taskset -c` and a list that has them and the engine's cores, workers would take "
        "them",
        format_id_list(barred));
  }
}

void Planner::explain() {
  const int num_engine = static_cast<int>(plan.engine_cpus.size());
  const int num_workers = static_cast<int>(plan.worker_cpus().size());
  const int near = count([](const Slot& slot) { return slot.near; });
  if (options.engine_cores > num_engine) {
    note("{} cores are wished for the engine and it gets {}: more cannot be used{}",
         options.engine_cores, num_engine, remedies());
  }
  if (options.workers > num_workers) {
    note("{} workers are wished for and {} get a core: {} can be used{}, the engine keeps {}{}",
         options.workers, num_workers, near,
         options.all_nodes ? "" : fmt::format(" at node {}", fmt::join(home, " and ")), num_engine,
         remedies());
  } else if (num_workers == 0 && options.workers < 0) {
    note(
        "no core is spare for workers ({} can be used): cold adapters wait for their load, layer "
        "by layer; --workers N takes cores from the engine",
        near);
  }
  note_isolated();
}

// How many of what. The host device computes with most cores. A GPU's engine has few threads that
// ever run at once: its own, those of the server, of the load stream and of the disk.
Planner::Counts Planner::count_out() const {
  const auto cores = [this](auto&& predicate) {
    return count([&](const Slot& slot) { return slot.rank == 0 && predicate(slot); });
  };
  const int near_cores = cores([](const Slot& slot) { return slot.near; });
  const int all_cores = cores([](const Slot&) { return true; });
  Counts counts;
  counts.near = count([](const Slot& slot) { return slot.near && !slot.isolated; });
  counts.near_isolated = count([](const Slot& slot) { return slot.near && slot.isolated; });
  const int far = count([](const Slot& slot) { return !slot.near && !slot.isolated; });
  counts.far_engine = options.host_device || counts.near == 0 ? far : 0;

  int engine = options.engine_cores;
  if (engine < 0 && options.host_device) {
    const int workers = options.workers < 0 ? near_cores / 4 : options.workers;
    engine = all_cores - std::min(workers, near_cores);
  } else if (engine < 0) {
    engine = std::min(near_cores / 4, 4);
    if (options.workers >= 0) {
      engine = std::min(engine, counts.near + counts.near_isolated - options.workers);
    }
  }
  counts.engine = std::clamp(engine, 1, counts.near + counts.far_engine);

  const int engine_near = std::max(0, counts.engine - counts.far_engine);
  const int most = counts.near_isolated + counts.near - engine_near;
  int workers = options.workers;
  if (workers < 0) {
    workers = options.host_device ? near_cores / 4 : std::max(0, near_cores - engine_near);
  }
  counts.workers = std::min({workers, most, kMaxPlannedWorkers});
  return counts;
}

Status Planner::run() {
  TANDEM_TRY(check_wishes());
  find_slots();
  TANDEM_TRY(check_slots());
  choose_home();
  order_slots();
  give(count_out());
  explain();
  return {};
}

}  // namespace

std::vector<int> PinPlan::worker_cpus() const {
  std::vector<int> cpus;
  for (const Workers& group : workers) {
    cpus.insert(cpus.end(), group.cpus.begin(), group.cpus.end());
  }
  return cpus;
}

std::vector<std::vector<int>> places_of(const MachineMap& machine, const std::vector<int>& gpus) {
  std::vector<std::vector<int>> places;
  for (const int gpu : gpus) {
    std::vector<int> place;
    for (const int node : machine.gpus[static_cast<std::size_t>(gpu)].nodes) {
      place.push_back(machine.memory_node_of(node));
    }
    if (!place.empty() && std::find(places.begin(), places.end(), place) == places.end()) {
      places.push_back(std::move(place));
    }
  }
  return places;
}

Result<PinPlan> plan_pinning(const MachineMap& machine, const PinOptions& options) {
  Planner planner{machine, options, {}, {}, {}, {}};
  TANDEM_TRY(planner.run());
  return std::move(planner.plan);
}

}  // namespace tandem
