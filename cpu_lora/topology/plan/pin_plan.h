// Chooses the cores of the engine's threads and of the CPU LoRA workers; `serve`, `profile` and
// `pin plan` all use it. Pure: a map and wishes in, a plan and its reasons out.
//
// The rules, strongest first:
//   - Only cpus that the cpuset and the affinity mask allow, and none that is excluded.
//   - Engine and workers share no core; nor do two workers, unless siblings are allowed and there
//     are more workers than cores.
//   - Cores that another engine has claimed are taken only if wishes need them, with a note.
//   - Isolated cores (isolcpus) are for workers, which never migrate, and are taken first. The
//     engine gets none, because its unpinned threads would all pile up on one of them.
//   - Cores of the fastest kind; the next kinds are added if it has fewer than kEnoughCores cores
//     or if slow cores are allowed.
//   - All cores on the node that the GPU is attached to, because its host memory is nearest there;
//     other nodes only with all_nodes, nearest first. (On the host device the engine's own threads
//     use all nodes.) If several GPUs are attached to a node, each has a part of it, by its
//     position among them, so that separate plans of these GPUs do not overlap. Only wishes reach
//     beyond it.
//   - If several GPUs share a model, workers are spread evenly over their nodes, because all GPUs
//     read the workers' answers; the engine is near the first GPU, which alone offers rows.
//   - The engine needs a core more than a worker does. It gets the first cores of a node, which
//     also serve interrupts; workers get the last ones.
//
// Without wishes, a GPU's engine gets a quarter of its part, at least two and at most four cores,
// and workers get the rest, up to kMostWorkersOfANode near each GPU; the host device gets all cores
// and no workers. A CPU quota limits the total number of cores.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cpu_lora/topology/machine_map.h"

namespace tandem {

inline constexpr int kMaxPlannedWorkers = 64;  // the maximum of the setting cpu_workers
// More workers did not help one GPU in measurements.
inline constexpr int kMostWorkersOfANode = 12;
inline constexpr int kEnoughCores = 4;

// The cores of another engine on this machine.
struct CoreClaim {
  std::string whose;  // "engine 4711 (llama)"
  std::vector<int> engine_cpus;
  std::vector<int> worker_cpus;

  std::vector<int> cpus() const;  // the cpus of both lists
};

struct PinOptions {
  int workers = -1;          // -1: chosen by the rules
  int engine_cores = -1;     // -1: chosen by the rules
  std::vector<int> exclude;  // cpus; without `smt` their whole cores are excluded
  int node = -1;             // node of both the engine and the workers; -1: the GPUs' node
  // Indices in MachineMap::gpus of the GPUs that share a model; empty: the first GPU, if there is
  // one.
  std::vector<int> gpus;
  bool all_nodes = false;         // further nodes may be used
  bool smt = false;               // siblings may be used
  bool slow_cores = false;        // cores of slower kinds may be used
  bool host_device = false;       // the engine computes on the CPU and wants most of the cores
  std::vector<CoreClaim> claims;  // of other engines
};

struct PinPlan {
  struct Workers {
    int node = 0;           // the node whose memory they use
    std::vector<int> cpus;  // rising, unless a user has named them (named_plan.h)
  };
  bool host_device = false;
  std::vector<int> gpus;            // the GPUs of this plan; empty: the machine reports none
  int node = 0;                     // the plan's first node
  std::vector<int> engine_cpus;     // rising; empty only if a user has named none
  std::vector<Workers> workers;     // by distance from `node`; each has cpus
  bool shares_engine_cpus = false;  // another engine has claimed some of engine_cpus
  std::vector<std::string> notes;   // sentences: which wish was not met, why, and the remedy
  std::vector<std::string> facts;   // sentences: limits of the plan that need no remedy

  std::vector<int> worker_cpus() const;  // of all nodes, in the order of `workers`
  std::vector<int> cpus() const;         // the engine's cpus, then the workers'
};

// invalid_argument: no such node, GPU or cpu. unavailable: no core is left for the engine. If there
// are fewer cores than wished for, the plan has a note and no error.
Result<PinPlan> plan_pinning(const MachineMap& machine, const PinOptions& options);

}  // namespace tandem
