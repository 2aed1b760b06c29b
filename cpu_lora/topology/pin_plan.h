// Which cores the engine's threads get, and which the CPU LoRA workers. Pure: a map and wishes in,
// a plan and its reasons out.
//
// The rules, strongest first:
//   - Only what the cpuset and the affinity mask leave, and nothing that is excluded.
//   - Engine and workers share no core; nor do two workers, unless siblings are allowed and there
//     are more of them than cores.
//   - Isolated cores (isolcpus) are for workers, which never migrate, and taken first; the engine's
//     threads, some of them unpinned, would all pile up on one, so they get none.
//   - Everything on the node that the GPU hangs at, for its host memory is nearest there; other
//     nodes only with all_nodes, nearest first. (On the host device the engine's own threads use
//     all nodes.)
//   - Where several GPUs share a model, workers are near each of them alike, for all read their
//     answers; the engine is near the first, which alone offers rows.
//   - The engine needs a core more than a worker does. It gets the first ones of a node, where
//     interrupts go as well; workers get the last ones.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cpu_lora/topology/machine_map.h"

namespace tandem {

inline constexpr int kMaxPlannedWorkers = 64;  // what the setting cpu_workers takes

struct PinOptions {
  int workers = -1;          // -1: chosen
  int engine_cores = -1;     // -1: chosen
  std::vector<int> exclude;  // cpus; without `smt` their whole cores
  int node = -1;             // where both go; -1: the GPUs'
  // Indices in MachineMap::gpus, of GPUs that share a model; empty: the first, if there is one.
  std::vector<int> gpus;
  bool all_nodes = false;    // further nodes may be used
  bool smt = false;          // siblings may be used
  bool host_device = false;  // the engine computes on the CPU: it wants most of the cores
};

struct PinPlan {
  struct Workers {
    int node = 0;           // whose memory they use
    std::vector<int> cpus;  // rising, unless a user has named them (named_plan.h)
  };
  bool host_device = false;
  std::vector<int> gpus;           // that all this is for; empty: the machine shows none
  int node = 0;                    // where it begins
  std::vector<int> engine_cpus;    // rising; empty only where a user has named none
  std::vector<Workers> workers;    // by distance from `node`; no empty ones
  std::vector<std::string> notes;  // sentences: what was not as wished, why, and the remedy

  std::vector<int> worker_cpus() const;  // of all nodes, in their order
};

// The nodes with memory that these GPUs hang at, those of each GPU together; once, where several
// hang at the same. A GPU whose place the machine does not tell has none. They are in the map.
std::vector<std::vector<int>> places_of(const MachineMap& machine, const std::vector<int>& gpus);

// invalid_argument: no such node, GPU or cpu. unavailable: no core is left for the engine. Fewer
// cores than wished for is no error but a note.
Result<PinPlan> plan_pinning(const MachineMap& machine, const PinOptions& options);

}  // namespace tandem
