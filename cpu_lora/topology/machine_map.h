// A whole machine as pinning sees it: packages, NUMA nodes, caches, cores, hardware threads, GPUs,
// and what of it this process may use. Of this machine, of another one that hwloc has described in
// XML (`lstopo file.xml`), or of an imagined one ("pack:2 node:2 core:8 pu:2").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id_list.h"
#include "base/status.h"

namespace tandem {

// Ids of cpus, nodes and packages are the OS's; cores have hwloc's number, as theirs repeat from
// package to package.

enum class CpuUse {
  usable,
  outside_cpuset,    // the cgroup's cpuset, or an administrator, keeps it from us
  outside_affinity,  // the process's affinity mask does
};
std::string_view to_string(CpuUse use);

struct MachineThread {
  int cpu = 0;
  CpuUse use = CpuUse::usable;
  bool isolated = false;  // isolcpus: the kernel moves no task onto it by itself
};

struct MachineCore {
  int id = 0;
  int package = -1;  // -1: the machine names none
  int node = 0;      // that it belongs to
  std::vector<MachineThread> threads;
  // 0 for the fastest kind of cores, rising for slower kinds (MachineMap::core_kinds). 0 for all
  // where the machine has one kind or does not say.
  int speed_rank = 0;

  // The hardware threads that may be used, in order.
  std::vector<int> usable() const;
};

struct MachineNode {
  int id = 0;
  int package = -1;  // -1: of none, or of several
  std::uint64_t memory_bytes = 0;
  int memory_node = 0;       // itself, or the nearest with memory if it has none
  std::vector<int> nearest;  // all nodes, itself first, then the nearest
};

struct MachineCache {
  int level = 0;
  bool instructions = false;
  std::uint64_t bytes = 0;
  std::vector<int> cpus;  // hardware threads that share it
};

struct MachineGpu {
  int index = 0;           // in the order of their PCI addresses
  std::string name;        // "NVIDIA H200"
  std::string pci;         // "0000:1b:00.0"; empty: imagined
  std::vector<int> nodes;  // that it hangs at; empty: the machine does not say
};

// Cores that are equally fast: performance or efficiency cores, big or LITTLE.
struct MachineCoreKind {
  std::string name;  // "IntelCore"; may be empty
  int max_mhz = 0;   // 0: not known
};

struct MachinePackage {
  int id = 0;
  std::string name;  // the processor's; may be empty
};

// MachineMap::source of the machine that this process runs on.
inline constexpr std::string_view kThisMachine = "this machine";

struct MachineMap {
  std::string source;  // "this machine", "file.xml", "pack:2 core:4"
  std::vector<MachinePackage> packages;
  std::vector<MachineNode> nodes;    // at least one
  std::vector<MachineCache> caches;  // by level, then in the machine's order
  std::vector<MachineCore> cores;    // by package, node and id; at least one
  std::vector<MachineGpu> gpus;
  std::vector<MachineCoreKind> core_kinds;  // by speed_rank; empty: one kind, or not known
  std::optional<double> quota_cpus;         // CPU time that a quota leaves, in cores; unset: none
  std::string quota_source;                 // what sets it: "/sys/fs/cgroup/x/cpu.max"

  const MachineNode* find_node(int id) const;   // null: there is none
  const MachineCore* find_core(int cpu) const;  // that has this thread; null: there is none
  int memory_node_of(int node) const;           // itself where the map does not have it
  int num_threads() const;
};

struct MachineOptions {
  std::string xml;        // file that hwloc wrote; empty: not from one
  std::string synthetic;  // hwloc's description of an imagined machine; empty: not imagined
  // Cpus that may be used; unset: all of an imagined machine or of a file, and on this one the
  // process's affinity mask.
  std::optional<std::vector<int>> allowed_cpus;
  std::optional<std::vector<int>> isolated_cpus;  // unset: as the kernel says, on this machine
  // CPU time in cores, above 0, that a quota leaves of an imagined machine or of a file's.
  std::optional<double> quota_cpus;
  std::vector<int> gpu_nodes;  // one more GPU at each, for machines that are not this one
  bool gpus = true;            // false: do not look for GPUs
  std::string node_folder = "/sys/devices/system/node";  // the kernel's, of this machine; for tests
};

// An error for what hwloc cannot read and for a machine without cores. That nothing of it may be
// used is none. Thread-safe.
Result<MachineMap> read_machine(const MachineOptions& options = {});

}  // namespace tandem
