#include "cpu_lora/topology/machine_map.h"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <tuple>
#include <utility>

#include "base/limits/cpu_quota.h"
#include "base/text/shown_text.h"
#include "base/threads/thread_cpus.h"
#include "cpu_lora/topology/core_kinds.h"
#include "cpu_lora/topology/hwloc_handles.h"
#include "cpu_lora/topology/local_nodes.h"
#include "cpu_lora/topology/machine_load.h"

namespace tandem {
namespace {

constexpr unsigned kNvidia = 0x10de;
constexpr std::size_t kMaxSource = 4096;  // characters, enough for a path

// The cpus of the affinity mask; all cpus if there is none.
Result<Bitmap> read_affinity(const MachineOptions& options) {
  Bitmap cpus(hwloc_bitmap_alloc_full());
  if (options.allowed_cpus) {
    hwloc_bitmap_zero(cpus.get());
    for (const int cpu : *options.allowed_cpus) {
      if (cpu < 0 || cpu > kMaxId) return invalid("there is no cpu {}", cpu);
      hwloc_bitmap_set(cpus.get(), static_cast<unsigned>(cpu));
    }
  } else if (is_this_machine(options)) {
    // The main thread's mask, with which the process was started; other threads may be pinned.
    const std::vector<int> own = cpus_of_thread(::getpid());
    if (own.empty()) return cpus;  // unknown: all cpus of the cpuset
    hwloc_bitmap_zero(cpus.get());
    for (const int cpu : own) hwloc_bitmap_set(cpus.get(), static_cast<unsigned>(cpu));
  }
  return cpus;
}

std::vector<int> read_isolated(const MachineOptions& options) {
  if (options.isolated_cpus) return *options.isolated_cpus;
  if (!is_this_machine(options)) return {};
  std::ifstream file("/sys/devices/system/cpu/isolated");
  std::string text;
  std::getline(file, text);
  Result<std::vector<int>> cpus = parse_id_list(text);
  return cpus ? *std::move(cpus) : std::vector<int>{};
}

int ancestor_id(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_obj_t object) {
  const hwloc_obj_t found = hwloc_get_ancestor_obj_by_type(topology, type, object);
  return found == nullptr ? -1 : static_cast<int>(found->os_index);
}

std::vector<int> ids_of(hwloc_const_bitmap_t bitmap) {
  std::vector<int> ids;
  if (bitmap == nullptr || hwloc_bitmap_weight(bitmap) < 0) return ids;  // an infinite set
  for (int id = hwloc_bitmap_first(bitmap); id >= 0; id = hwloc_bitmap_next(bitmap, id)) {
    ids.push_back(id);
  }
  return ids;
}

// Names may contain any bytes, since they can come from a file or a virtual machine.
std::string info_of(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value == nullptr ? "" : shown_text(value);
}

void read_packages(hwloc_topology_t topology, MachineMap& map) {
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object)) != nullptr;) {
    map.packages.push_back({static_cast<int>(object->os_index), info_of(object, "CPUModel")});
  }
}

// Distances between nodes as the firmware reports them; otherwise 10 to itself, 20 within the
// package, 30 beyond. Indices are positions in map.nodes.
std::vector<std::vector<std::uint64_t>> read_distances(hwloc_topology_t topology,
                                                       const MachineMap& map) {
  const std::size_t count = map.nodes.size();
  std::vector<std::vector<std::uint64_t>> distances(count, std::vector<std::uint64_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      const bool same = map.nodes[i].package >= 0 && map.nodes[i].package == map.nodes[j].package;
      distances[i][j] = i == j ? 10 : same ? 20 : 30;
    }
  }
  unsigned num_matrices = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &num_matrices, &matrix,
                                  HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
      num_matrices == 0 || matrix == nullptr) {
    return distances;
  }
  const auto position = [&](unsigned index) {
    if (matrix->objs[index] == nullptr) return count;
    const int id = static_cast<int>(matrix->objs[index]->os_index);
    return static_cast<std::size_t>(
        std::find_if(map.nodes.begin(), map.nodes.end(),
                     [&](const MachineNode& node) { return node.id == id; }) -
        map.nodes.begin());
  };
  for (unsigned i = 0; i < matrix->nbobjs; ++i) {
    for (unsigned j = 0; j < matrix->nbobjs; ++j) {
      if (position(i) >= count || position(j) >= count) continue;
      distances[position(i)][position(j)] = matrix->values[i * matrix->nbobjs + j];
    }
  }
  hwloc_distances_release(topology, matrix);
  return distances;
}

void read_nodes(hwloc_topology_t topology, const MachineOptions& options, MachineMap& map) {
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr;) {
    MachineNode node;
    node.id = static_cast<int>(object->os_index);
    node.package = ancestor_id(topology, HWLOC_OBJ_PACKAGE, object);
    node.memory_bytes = object->attr->numanode.local_memory;
    map.nodes.push_back(node);
  }
  std::sort(map.nodes.begin(), map.nodes.end(),
            [](const MachineNode& a, const MachineNode& b) { return a.id < b.id; });
  if (map.nodes.empty()) map.nodes.push_back({});
  if (is_this_machine(options) && map.nodes.size() == 1 && map.nodes.front().memory_bytes == 0) {
    // hwloc has not read it (machine_load.h).
    map.nodes.front().memory_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                     static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }
  const auto distances = read_distances(topology, map);
  // A description may omit memory sizes altogether; then no node counts as without memory.
  const bool any_memory =
      std::any_of(map.nodes.begin(), map.nodes.end(),
                  [](const MachineNode& node) { return node.memory_bytes > 0; });
  for (std::size_t i = 0; i < map.nodes.size(); ++i) {
    MachineNode& node = map.nodes[i];
    std::vector<std::size_t> order(map.nodes.size());
    for (std::size_t j = 0; j < order.size(); ++j) order[j] = j;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(a != i, distances[i][a]) < std::pair(b != i, distances[i][b]);
    });
    node.memory_node = node.id;
    bool found = node.memory_bytes > 0 || !any_memory;
    for (const std::size_t j : order) {
      node.nearest.push_back(map.nodes[j].id);
      if (!found && map.nodes[j].memory_bytes > 0) {
        node.memory_node = map.nodes[j].id;
        found = true;
      }
    }
  }
}

void read_caches(hwloc_topology_t topology, MachineMap& map) {
  const int depth = hwloc_topology_get_depth(topology);
  for (int level = 0; level < depth; ++level) {
    if (hwloc_obj_type_is_cache(hwloc_get_depth_type(topology, level)) == 0) continue;
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_depth(topology, level, object)) != nullptr;) {
      const auto& cache = object->attr->cache;
      map.caches.push_back({static_cast<int>(cache.depth),
                            cache.type == HWLOC_OBJ_CACHE_INSTRUCTION, cache.size,
                            ids_of(object->cpuset)});
    }
  }
  std::stable_sort(map.caches.begin(), map.caches.end(),
                   [](const MachineCache& a, const MachineCache& b) { return a.level < b.level; });
}

Status read_cores(hwloc_topology_t topology, const MachineOptions& options, MachineMap& map) {
  TANDEM_ASSIGN(const Bitmap affinity, read_affinity(options));
  const std::vector<int> isolated = read_isolated(options);
  const std::vector<LocalNode> nodes = read_local_nodes(topology, options);
  const hwloc_const_bitmap_t cpuset = hwloc_topology_get_allowed_cpuset(topology);
  // Some virtual machines and containers show hardware threads but no cores.
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    MachineCore core;
    core.id = static_cast<int>(object->logical_index);
    core.package = ancestor_id(topology, HWLOC_OBJ_PACKAGE, object);
    const int cpu = hwloc_bitmap_first(object->cpuset);
    if (cpu < 0) continue;
    core.node = node_of_cpu(nodes, cpu).value_or(map.nodes.front().id);
    for (const int cpu : ids_of(object->cpuset)) {
      MachineThread thread;
      thread.cpu = cpu;
      const auto bit = static_cast<unsigned>(cpu);
      if (hwloc_bitmap_isset(cpuset, bit) == 0) {
        thread.use = CpuUse::outside_cpuset;
      } else if (hwloc_bitmap_isset(affinity.get(), bit) == 0) {
        thread.use = CpuUse::outside_affinity;
      }
      thread.isolated = std::find(isolated.begin(), isolated.end(), cpu) != isolated.end();
      core.threads.push_back(thread);
    }
    if (!core.threads.empty()) map.cores.push_back(std::move(core));
  }
  if (map.cores.empty()) return invalid("{} has no cores", map.source);
  std::stable_sort(map.cores.begin(), map.cores.end(),
                   [](const MachineCore& a, const MachineCore& b) {
                     return std::tie(a.package, a.node, a.id) < std::tie(b.package, b.node, b.id);
                   });
  return {};
}

// The GPU's name from NVIDIA's driver, because the list of PCI names is often not installed.
std::string driver_name(const std::string& pci) {
  std::ifstream file("/proc/driver/nvidia/gpus/" + pci + "/information");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Model:")) continue;
    const std::size_t start = line.find_first_not_of(" \t", 6);
    return start == std::string::npos ? "" : shown_text(line.substr(start));
  }
  return {};
}

void read_gpus(hwloc_topology_t topology, const MachineOptions& options, MachineMap& map) {
  std::set<int> with_cores;
  for (const MachineCore& core : map.cores) with_cores.insert(core.node);
  const auto nodes_of = [&](hwloc_obj_t object) {
    const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, object);
    if (place == nullptr) return std::vector<int>{};
    // Nodes without cores are attached to the whole machine or to a package, so they do not locate
    // the GPU.
    std::set<int> nodes;
    for (const MachineCore& core : map.cores) {
      const auto cpu = static_cast<unsigned>(core.threads.front().cpu);
      if (place->cpuset != nullptr && hwloc_bitmap_isset(place->cpuset, cpu) != 0) {
        nodes.insert(core.node);
      }
    }
    // A GPU near all of several nodes has no known location.
    if (nodes.size() > 1 && nodes.size() == with_cores.size()) return std::vector<int>{};
    return nodes.empty() ? ids_of(place->nodeset) : std::vector<int>(nodes.begin(), nodes.end());
  };
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_pcidev(topology, object)) != nullptr;) {
    const auto& device = object->attr->pcidev;
    // 0300: VGA, 0302: 3D without a display, 0380: other display controllers.
    if (device.vendor_id != kNvidia || device.class_id >> 8 != 0x03) continue;
    MachineGpu gpu;
    gpu.pci = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(device.domain),
                          device.bus, device.dev, static_cast<unsigned>(device.func));
    gpu.nodes = nodes_of(object);
    if (is_this_machine(options)) gpu.name = driver_name(gpu.pci);
    if (gpu.name.empty()) gpu.name = info_of(object, "PCIDevice");
    if (gpu.name.empty()) gpu.name = fmt::format("NVIDIA device {:04x}", device.device_id);
    map.gpus.push_back(std::move(gpu));
  }
  std::sort(map.gpus.begin(), map.gpus.end(),
            [](const MachineGpu& a, const MachineGpu& b) { return a.pci < b.pci; });
  for (const int node : options.gpu_nodes) map.gpus.push_back({0, "imagined GPU", "", {node}});
  for (std::size_t i = 0; i < map.gpus.size(); ++i) map.gpus[i].index = static_cast<int>(i);
}

}  // namespace

std::string_view to_string(CpuUse use) {
  switch (use) {
    case CpuUse::usable:
      return "usable";
    case CpuUse::outside_cpuset:
      return "outside the cpuset";
    case CpuUse::outside_affinity:
      return "outside the affinity mask";
  }
  return "unknown";
}

std::vector<int> MachineCore::usable() const {
  std::vector<int> cpus;
  for (const MachineThread& thread : threads) {
    if (thread.use == CpuUse::usable) cpus.push_back(thread.cpu);
  }
  return cpus;
}

const MachineNode* MachineMap::find_node(int id) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const MachineNode& node) { return node.id == id; });
  return found == nodes.end() ? nullptr : &*found;
}

const MachineCore* MachineMap::find_core(int cpu) const {
  const auto found = std::find_if(cores.begin(), cores.end(), [&](const MachineCore& core) {
    return std::any_of(core.threads.begin(), core.threads.end(),
                       [&](const MachineThread& thread) { return thread.cpu == cpu; });
  });
  return found == cores.end() ? nullptr : &*found;
}

int MachineMap::memory_node_of(int node) const {
  const MachineNode* const found = find_node(node);
  return found == nullptr ? node : found->memory_node;
}

int MachineMap::num_threads() const {
  std::size_t count = 0;
  for (const MachineCore& core : cores) count += core.threads.size();
  return static_cast<int>(count);
}

Result<MachineMap> read_machine(const MachineOptions& options) {
  if (!options.xml.empty() && !options.synthetic.empty()) {
    return invalid("give a machine's file or a synthetic machine, not both");
  }
  if (is_this_machine(options) && !options.gpu_nodes.empty()) {
    return invalid("gpu_nodes is for other machines: the nodes of this one's GPUs are known");
  }
  if (options.quota_cpus && (is_this_machine(options) || !(*options.quota_cpus > 0))) {
    return invalid(
        "a quota of cores must be above 0, and is for other machines: this one's is known");
  }
  TANDEM_ASSIGN(const TopologyHandle topology, load_machine(options));
  MachineMap map;
  map.source = shown_text(!options.xml.empty()         ? options.xml
                          : !options.synthetic.empty() ? options.synthetic
                                                       : std::string(kThisMachine),
                          kMaxSource);
  read_packages(topology.get(), map);
  read_nodes(topology.get(), options, map);
  for (const int node : options.gpu_nodes) {
    if (map.find_node(node) == nullptr) {
      return invalid("a GPU at node {}: {} has nodes {}", node, map.source,
                     format_id_list(map.nodes.front().nearest));
    }
  }
  read_caches(topology.get(), map);
  TANDEM_TRY(read_cores(topology.get(), options, map));
  read_core_kinds(topology.get(), map);
  if (options.gpus) read_gpus(topology.get(), options, map);
  if (options.quota_cpus) {
    map.quota_cpus = options.quota_cpus;
    map.quota_source = "the quota given for this machine";
  } else if (const auto quota = read_cpu_quota(); quota && is_this_machine(options)) {
    map.quota_cpus = quota->cpus;
    map.quota_source = quota->where;
  }
  return map;
}

}  // namespace tandem
