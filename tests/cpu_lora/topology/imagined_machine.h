// Machines of any shape, for tests of plans.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/plan/pin_plan.h"

namespace tandem {

// hwloc can only make symmetric machines, so this makes machines of any shape. A node has a number
// of cores and of threads per core; a package has two nodes.
struct NodeShape {
  int cores = 0;
  int threads = 1;
  std::uint64_t memory = std::uint64_t{1} << 30;
};

// Siblings are numbered after the first threads of all cores, as in Linux.
inline MachineMap build(const std::vector<NodeShape>& shapes,
                        const std::vector<int>& gpu_nodes = {}) {
  MachineMap map;
  map.source = "a test";
  int num_cores = 0;
  for (const NodeShape& shape : shapes) num_cores += shape.cores;
  int core_id = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const int id = static_cast<int>(i);
    const int package = id / 2;
    if (id % 2 == 0) map.packages.push_back({package, ""});
    MachineNode node;
    node.id = node.memory_node = id;
    node.package = package;
    node.memory_bytes = shapes[i].memory;
    for (int other = 0; other < static_cast<int>(shapes.size()); ++other) {
      node.nearest.push_back(other);
    }
    std::stable_sort(node.nearest.begin(), node.nearest.end(), [&](int a, int b) {
      const auto far = [&](int n) { return n == id ? 0 : n / 2 == package ? 1 : 2; };
      return far(a) < far(b);
    });
    for (const int other : node.nearest) {
      if (shapes[static_cast<std::size_t>(other)].memory == 0) continue;
      node.memory_node = other;
      break;
    }
    map.nodes.push_back(node);
    for (int c = 0; c < shapes[i].cores; ++c) {
      MachineCore core;
      core.id = core_id;
      core.package = package;
      core.node = id;
      for (int t = 0; t < shapes[i].threads; ++t) {
        core.threads.push_back({core_id + t * num_cores, CpuUse::usable, false});
      }
      ++core_id;
      map.cores.push_back(core);
    }
  }
  for (const int node : gpu_nodes) {
    map.gpus.push_back({static_cast<int>(map.gpus.size()), "", "", {node}});
  }
  return map;
}

inline MachineThread& thread_of(MachineMap& map, int cpu) {
  for (MachineCore& core : map.cores) {
    for (MachineThread& thread : core.threads) {
      if (thread.cpu == cpu) return thread;
    }
  }
  ADD_FAILURE() << cpu;
  return map.cores.front().threads.front();
}

inline PinPlan plan(const MachineMap& map, const PinOptions& options = {}) {
  Result<PinPlan> made = plan_pinning(map, options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made ? *std::move(made) : PinPlan{};
}

}  // namespace tandem
