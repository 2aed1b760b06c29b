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
  int node = -1;             // where both go; -1: the GPU's
  int gpu = -1;              // index in MachineMap::gpus; -1: the first, if there is one
  bool all_nodes = false;    // further nodes may be used
  bool smt = false;          // siblings may be used
  bool host_device = false;  // the engine computes on the CPU: it wants most of the cores
};

struct PinPlan {
  struct Workers {
    int node = 0;           // whose memory they use
    std::vector<int> cpus;  // rising
  };
  bool host_device = false;
  int gpu = -1;                    // that all this is near to; -1: none, or its place is unknown
  int node = 0;                    // where it begins
  std::vector<int> engine_cpus;    // rising, never empty
  std::vector<Workers> workers;    // by distance from `node`; no empty ones
  std::vector<std::string> notes;  // sentences: what was not as wished, why, and the remedy

  std::vector<int> worker_cpus() const;  // of all nodes, in their order
};

// invalid_argument: no such node, GPU or cpu. unavailable: no core is left for the engine. Fewer
// cores than wished for is no error but a note.
Result<PinPlan> plan_pinning(const MachineMap& machine, const PinOptions& options);

}  // namespace tandem
