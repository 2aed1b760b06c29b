// The cores that this process may use, for pinning compute threads and CPU LoRA workers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace tandem {

// One physical core. Its hyper-threads share the arithmetic units, so one thread is pinned per
// core, on `cpu`.
struct Core {
  int cpu = 0;            // OS id of its first usable hardware thread
  int numa_node = 0;      // OS id of the node whose memory is nearest
  std::vector<int> cpus;  // all its usable hardware threads, `cpu` first
};

struct TopologyOptions {
  // hwloc's description of a synthetic machine ("node:2 core:4 pu:2"); empty: this machine.
  std::string synthetic;
  // OS ids of the cpus that may be used; unset: all cpus of a synthetic machine, and the process's
  // affinity mask on this machine (the cgroup's cpuset applies as well).
  std::optional<std::vector<int>> allowed_cpus;
};

// The cores by NUMA node, then in the machine's order. Never empty: a machine of which nothing may
// be used is an error. Thread-safe.
Result<std::vector<Core>> read_topology(const TopologyOptions& options = {});

}  // namespace tandem
