// A whole machine as pinning needs it: packages, NUMA nodes, caches, cores, hardware threads and
// GPUs, and which of them this process may use. The machine is this one, another one that hwloc has
// described in XML (`lstopo file.xml`), or a synthetic one ("pack:2 node:2 core:8 pu:2").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/text/id_list.h"

namespace tandem {

// Ids of cpus, nodes and packages are the operating system's. Cores have hwloc's number, because
// the system's repeat in each package.

enum class CpuUse {
  usable,
  outside_cpuset,    // the cgroup's cpuset, or an administrator, excludes it
  outside_affinity,  // the process's affinity mask excludes it
};
std::string_view to_string(CpuUse use);

struct MachineThread {
  int cpu = 0;
  CpuUse use = CpuUse::usable;
  bool isolated = false;  // isolcpus: the kernel moves no task onto it by itself
};

struct MachineCore {
  int id = 0;
  int package = -1;  // -1: not reported
  int node = 0;      // the node that it belongs to
  std::vector<MachineThread> threads;
  // 0 for the fastest kind of cores, larger for slower kinds (MachineMap::core_kinds). 0 for all
  // cores if the machine has one kind or does not report kinds.
  int speed_rank = 0;

  // The hardware threads of this core that may be used, in order.
  std::vector<int> usable() const;
};

struct MachineNode {
  int id = 0;
  int package = -1;  // -1: in none, or in several
  std::uint64_t memory_bytes = 0;
  int memory_node = 0;       // this node, or the nearest one with memory if it has none
  std::vector<int> nearest;  // all nodes, sorted by distance, this one first
};

struct MachineCache {
  int level = 0;
  bool instructions = false;
  std::uint64_t bytes = 0;
  std::vector<int> cpus;  // hardware threads that share it
};

struct MachineGpu {
  int index = 0;           // in the order of PCI addresses
  std::string name;        // "NVIDIA H200"
  std::string pci;         // "0000:1b:00.0"; empty: synthetic
  std::vector<int> nodes;  // the nodes that it is attached to; empty: not reported
};

// Cores that are equally fast: performance or efficiency cores, big or LITTLE.
struct MachineCoreKind {
  std::string name;  // "IntelCore"; may be empty
  int max_mhz = 0;   // 0: not known
};

struct MachinePackage {
  int id = 0;
  std::string name;  // the processor's name; may be empty
};

// MachineMap::source if the map describes the machine of this process.
inline constexpr std::string_view kThisMachine = "this machine";

struct MachineMap {
  std::string source;  // "this machine", "file.xml", "pack:2 core:4"
  std::vector<MachinePackage> packages;
  std::vector<MachineNode> nodes;    // at least one
  std::vector<MachineCache> caches;  // by level, then in the machine's order
  std::vector<MachineCore> cores;    // by package, node and id; at least one
  std::vector<MachineGpu> gpus;
  std::vector<MachineCoreKind> core_kinds;  // by speed_rank; empty: one kind, or not known
  std::optional<double> quota_cpus;  // CPU time in cores that a quota allows; unset: no quota
  std::string quota_source;          // the file that sets it: "/sys/fs/cgroup/x/cpu.max"

  const MachineNode* find_node(int id) const;   // null: there is none
  const MachineCore* find_core(int cpu) const;  // the core with this thread; null: there is none
  int memory_node_of(int node) const;           // returns `node` itself if the map does not have it
  int num_threads() const;
};

struct MachineOptions {
  std::string xml;        // file that hwloc wrote; empty: none
  std::string synthetic;  // hwloc's description of a synthetic machine; empty: none
  // Cpus that may be used; unset: all cpus of a synthetic machine or of a file, and the process's
  // affinity mask on this machine.
  std::optional<std::vector<int>> allowed_cpus;
  std::optional<std::vector<int>> isolated_cpus;  // unset: on this machine, the kernel's list
  // CPU time in cores, above 0, that a quota allows on a synthetic machine or on a file's.
  std::optional<double> quota_cpus;
  std::vector<int> gpu_nodes;  // adds one GPU at each of these nodes; not for this machine
  bool gpus = true;            // false: do not look for GPUs
  // The kernel's folder on this machine; for tests.
  std::string node_folder = "/sys/devices/system/node";
};

// Returns an error if hwloc cannot read the machine or if it has no cores. It is no error if this
// process may use none of them. Thread-safe.
Result<MachineMap> read_machine(const MachineOptions& options = {});

}  // namespace tandem
