// Which cores the engine's threads get, and which the CPU LoRA workers: the one rule of `serve`,
// `profile` and `pin plan`. Pure: a map and wishes in, a plan and its reasons out.
//
// The rules, strongest first:
//   - Only what the cpuset and the affinity mask leave, and nothing that is excluded.
//   - Engine and workers share no core; nor do two workers, unless siblings are allowed and there
//     are more of them than cores.
//   - Cores that another engine has claimed are taken only where wishes need them, with a note.
//   - Isolated cores (isolcpus) are for workers, which never migrate, and taken first; the engine's
//     threads, some of them unpinned, would all pile up on one, so they get none.
//   - Cores of the fastest kind; of the next ones where those are fewer than kEnoughCores, or where
//     slow ones are allowed.
//   - Everything on the node that the GPU hangs at, for its host memory is nearest there; other
//     nodes only with all_nodes, nearest first. (On the host device the engine's own threads use
//     all nodes.) Of a node at which several GPUs hang each has a part, by its place among them:
//     plans of GPUs that are made apart do not meet. Only wishes reach beyond that part.
//   - Where several GPUs share a model, workers are near each of them alike, for all read their
//     answers; the engine is near the first, which alone offers rows.
//   - The engine needs a core more than a worker does. It gets the first ones of a node, where
//     interrupts go as well; workers get the last ones.
//
// Where nothing is wished for: a GPU's engine gets a quarter of its part, two cores at least and
// four at most, and workers what is left, up to kMostWorkersOfANode near each GPU; the host device
// gets all cores and no workers. A CPU quota counts as so many cores.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cpu_lora/topology/machine_map.h"

namespace tandem {

inline constexpr int kMaxPlannedWorkers = 64;  // what the setting cpu_workers takes
// More were not measured to help one GPU.
inline constexpr int kMostWorkersOfANode = 12;
inline constexpr int kEnoughCores = 4;

// What another engine of this machine has.
struct CoreClaim {
  std::string whose;  // "engine 4711 (llama)"
  std::vector<int> engine_cpus;
  std::vector<int> worker_cpus;

  std::vector<int> cpus() const;  // all of them
};

struct PinOptions {
  int workers = -1;          // -1: chosen
  int engine_cores = -1;     // -1: chosen
  std::vector<int> exclude;  // cpus; without `smt` their whole cores
  int node = -1;             // where both go; -1: the GPUs'
  // Indices in MachineMap::gpus, of GPUs that share a model; empty: the first, if there is one.
  std::vector<int> gpus;
  bool all_nodes = false;         // further nodes may be used
  bool smt = false;               // siblings may be used
  bool slow_cores = false;        // so may cores of slower kinds
  bool host_device = false;       // the engine computes on the CPU: it wants most of the cores
  std::vector<CoreClaim> claims;  // of the other engines
};

struct PinPlan {
  struct Workers {
    int node = 0;           // whose memory they use
    std::vector<int> cpus;  // rising, unless a user has named them (named_plan.h)
  };
  bool host_device = false;
  std::vector<int> gpus;            // that all this is for; empty: the machine shows none
  int node = 0;                     // where it begins
  std::vector<int> engine_cpus;     // rising; empty only where a user has named none
  std::vector<Workers> workers;     // by distance from `node`; no empty ones
  bool shares_engine_cpus = false;  // some of them are claimed by another engine
  std::vector<std::string> notes;   // sentences: what was not as wished, why, and the remedy
  std::vector<std::string> facts;   // sentences: what limits the plan and needs no remedy

  std::vector<int> worker_cpus() const;  // of all nodes, in their order
  std::vector<int> cpus() const;         // and the engine's, which come first
};

// invalid_argument: no such node, GPU or cpu. unavailable: no core is left for the engine. Fewer
// cores than wished for is no error but a note.
Result<PinPlan> plan_pinning(const MachineMap& machine, const PinOptions& options);

}  // namespace tandem
