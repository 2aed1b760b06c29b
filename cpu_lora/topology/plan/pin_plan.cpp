#include "cpu_lora/topology/plan/pin_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "cpu_lora/topology/plan/core_counts.h"
#include "cpu_lora/topology/plan/core_slots.h"
#include "cpu_lora/topology/plan/node_shares.h"

namespace tandem {
namespace {

using Slot = CoreSlot;
using Claim = CoreSlot::Claim;

struct Planner {
  const MachineMap& machine;
  const PinOptions& options;
  PinPlan plan;
  std::vector<Slot> slots;
  std::vector<int> home;                 // nodes that count as near
  std::vector<std::vector<int>> places;  // of the GPUs
  std::map<int, int> slots_on;           // by node

  template <typename... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    plan.notes.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void tell(fmt::format_string<Args...> format, Args&&... args) {
    plan.facts.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  int memory_node(int node) const { return machine.memory_node_of(node); }
  template <typename Predicate>
  int count(Predicate&& predicate) const {
    return static_cast<int>(std::count_if(slots.begin(), slots.end(), predicate));
  }
  int on_node(int node) const {
    const auto found = slots_on.find(node);
    return found == slots_on.end() ? 0 : found->second;
  }

  Status check_wishes() const;
  void find_slots();
  Status check_slots() const;
  void find_places();
  void choose_home();
  void order_slots();
  void take_places_by_turns(std::vector<Slot*>& order, const std::vector<bool>& of_engine) const;
  void give(const CoreCounts& counts);
  void explain();
  void note_isolated();
  void note_claims();
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
  if (options.exclude.empty()) return {};
  std::set<int> known;
  for (const MachineCore& core : machine.cores) {
    for (const MachineThread& thread : core.threads) known.insert(thread.cpu);
  }
  for (const int cpu : options.exclude) {
    if (!known.contains(cpu)) {
      return invalid("there is no cpu {} to exclude; cpus are {}", cpu,
                     format_id_list({known.begin(), known.end()}));
    }
  }
  return {};
}

void Planner::find_slots() {
  std::vector<int> left_out;
  slots = find_core_slots(machine, options, left_out);
  for (const Slot& slot : slots) ++slots_on[slot.node];
  if (left_out.empty()) return;
  tell("cpus {} are of a slower kind and stay idle; slow_cores lets them work, too",
       format_id_list(std::move(left_out)));
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
  if (!unknown.empty() && slots_on.size() > 1) {
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
    // The node with the most cores, the first of several.
    int best = -1;
    for (const MachineNode& node : machine.nodes) {
      if (on_node(node.id) > best) {
        best = on_node(node.id);
        wanted = node.id;
      }
    }
  }
  if (memory_node(wanted) != wanted) {
    note("node {} has no memory of its own: node {}, the nearest with memory, is used instead",
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
  std::map<int, int> distances;
  for (std::size_t i = 0; i < order.size(); ++i) distances[order[i]] = static_cast<int>(i);
  for (Slot& slot : slots) {
    slot.distance = distances.at(slot.node);
    slot.near = options.all_nodes || slot.distance < static_cast<int>(home.size());
    const auto place = std::find_if(places.begin(), places.end(), [&](const auto& nodes) {
      return std::find(nodes.begin(), nodes.end(), slot.node) != nodes.end();
    });
    slot.place = place == places.end() ? 0 : static_cast<int>(place - places.begin());
  }
}

// Among claimed cores, another worker's core is the worst for a worker, because both workers wait
// for the core while they spin.
int claim_order(const Slot& slot) {
  return slot.claim == Claim::none ? 0 : slot.claim == Claim::of_engine ? 1 : 2;
}

// Orders slots that are equally good otherwise by turns: the first slot of each place, then the
// second of each, and so on.
void Planner::take_places_by_turns(std::vector<Slot*>& order,
                                   const std::vector<bool>& of_engine) const {
  using Worth = std::tuple<int, bool, bool, int, int>;
  std::map<Worth, int> next;  // by place, the number of its last slot
  std::map<const Slot*, Worth> turns;
  for (const Slot* slot : order) {
    Worth worth = {claim_order(*slot), !slot->own, of_engine[static_cast<std::size_t>(slot->core)],
                   slot->rank, slot->place};
    const int turn = next[worth]++;
    std::get<4>(worth) = turn;
    turns[slot] = worth;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](const Slot* a, const Slot* b) { return turns[a] < turns[b]; });
}

// The engine gets the first slots of the order; workers get the last of the remaining ones.
void Planner::give(const CoreCounts& counts) {
  std::vector<Slot*> order;
  for (Slot& slot : slots) {
    if (!slot.isolated && (slot.near || counts.far_engine > 0)) order.push_back(&slot);
  }
  const auto engine_key = [](const Slot* slot) {
    return std::tuple(static_cast<int>(slot->claim), slot->rank, !slot->own, slot->kind,
                      slot->distance, slot->core);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Slot* a, const Slot* b) { return engine_key(a) < engine_key(b); });
  int near_quota = counts.near - std::max(0, counts.workers - counts.near_isolated);
  std::vector<bool> of_engine(machine.cores.size());
  for (Slot* slot : order) {
    if (static_cast<int>(plan.engine_cpus.size()) == counts.engine) break;
    if (slot->near && near_quota-- <= 0) continue;
    slot->given = true;
    of_engine[static_cast<std::size_t>(slot->core)] = true;
    plan.engine_cpus.push_back(slot->cpu);
    plan.shares_engine_cpus = plan.shares_engine_cpus || slot->claim != Claim::none;
  }
  std::sort(plan.engine_cpus.begin(), plan.engine_cpus.end());

  order.clear();
  for (Slot& slot : slots) {
    if (slot.near && !slot.given) order.push_back(&slot);
  }
  const auto key = [&](const Slot* slot) {
    return std::tuple(claim_order(*slot), !slot->own,
                      static_cast<bool>(of_engine[static_cast<std::size_t>(slot->core)]),
                      slot->rank, slot->kind, slot->distance, !slot->isolated, -slot->core);
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
    tell("cpus {} are isolated (isolcpus): workers take them first, the engine never does",
         format_id_list(used));
  }
  if (!barred.empty()) {
    tell(
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
    note("{} cores are asked for the engine, which gets {}: more cannot be used{}",
         options.engine_cores, num_engine, remedies());
  }
  if (options.workers > num_workers) {
    note("{} workers are asked for and {} get a core: {} can be used{}, the engine keeps {}{}",
         options.workers, num_workers, near,
         options.all_nodes ? "" : fmt::format(" at node {}", fmt::join(home, " and ")), num_engine,
         remedies());
  } else if (num_workers == 0 && options.workers < 0 && !options.host_device) {
    tell(
        "no core is spare for workers ({} can be used): cold adapters wait for their load, layer "
        "by layer; --workers N takes cores from the engine",
        near);
  }
  note_isolated();
  note_claims();
  if (const int total = num_engine + num_workers; total > quota_of(machine)) {
    note(
        "{} threads run at once, but the CPU quota is {:.2f} cores ({}): the kernel stops all of "
        "them for a part of each period; ask for fewer, or raise the quota",
        total, *machine.quota_cpus, machine.quota_source);
  } else if (machine.quota_cpus) {
    tell("a CPU quota leaves {:.2f} cores ({}): no more threads than that are planned for",
         *machine.quota_cpus, machine.quota_source);
  }
}

// Notes which of the plan's cores another engine has claimed, and which engine.
void Planner::note_claims() {
  const std::vector<int> ours = plan.cpus();
  for (const CoreClaim& claim : options.claims) {
    const std::vector<int> shared = common_ids(ours, claim.cpus());
    if (shared.empty()) continue;
    note(
        "cpus {} are shared with {}, as no others are free: both are slower; give each engine "
        "fewer (cpu_workers, threads) or cores of its own (cpus, worker_cpus)",
        format_id_list(shared), claim.whose);
  }
}

Status Planner::run() {
  TANDEM_TRY(check_wishes());
  find_slots();
  TANDEM_TRY(check_slots());
  choose_home();
  order_slots();
  keep_to_worker_nodes(slots);
  if (!options.host_device && options.node < 0) {
    std::ranges::move(share_nodes(machine, plan.gpus, home, slots), std::back_inserter(plan.facts));
  }
  const CoreCounts counts =
      choose_counts(machine, options, std::max<std::size_t>(places.size(), 1), slots);
  give(counts);
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

std::vector<int> PinPlan::cpus() const {
  std::vector<int> all = engine_cpus;
  std::ranges::copy(worker_cpus(), std::back_inserter(all));
  return all;
}

std::vector<int> CoreClaim::cpus() const {
  std::vector<int> all = engine_cpus;
  std::ranges::copy(worker_cpus, std::back_inserter(all));
  return all;
}

Result<PinPlan> plan_pinning(const MachineMap& machine, const PinOptions& options) {
  Planner planner{machine, options, {}, {}, {}, {}, {}};
  TANDEM_TRY(planner.run());
  return std::move(planner.plan);
}

}  // namespace tandem
