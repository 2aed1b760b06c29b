#include "cpu_lora/topology.h"

#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <type_traits>

namespace tandem {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using TopologyHandle = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, FreeBitmap>;

Result<TopologyHandle> load(const std::string& synthetic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return errno_status("hwloc_topology_init", errno);
  TopologyHandle topology(raw);
  if (!synthetic.empty() && hwloc_topology_set_synthetic(raw, synthetic.c_str()) != 0) {
    return invalid("'{}' is not a machine that hwloc can imagine", synthetic);
  }
  if (hwloc_topology_load(raw) != 0) return errno_status("hwloc_topology_load", errno);
  return topology;
}

Status allow_affinity_mask(hwloc_bitmap_t allowed) {
  cpu_set_t set;
  CPU_ZERO(&set);
  // The main thread's mask, what the process was started with; other threads may be pinned.
  if (sched_getaffinity(getpid(), sizeof set, &set) != 0) {
    return errno_status("sched_getaffinity", errno);
  }
  hwloc_bitmap_zero(allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) hwloc_bitmap_set(allowed, static_cast<unsigned>(cpu));
  }
  return {};
}

int node_of(hwloc_topology_t topology, hwloc_obj_t core) {
  if (core->nodeset != nullptr) {
    const int first = hwloc_bitmap_first(core->nodeset);
    if (first >= 0) return first;
  }
  const hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, 0);
  return node == nullptr ? 0 : static_cast<int>(node->os_index);
}

}  // namespace

Result<std::vector<Core>> read_topology(const TopologyOptions& options) {
  TANDEM_ASSIGN(const TopologyHandle topology, load(options.synthetic));
  const Bitmap allowed(hwloc_bitmap_alloc_full());
  if (options.allowed_cpus) {
    hwloc_bitmap_zero(allowed.get());
    for (const int cpu : *options.allowed_cpus) {
      if (cpu < 0) return invalid("there is no cpu {}", cpu);
      hwloc_bitmap_set(allowed.get(), static_cast<unsigned>(cpu));
    }
  } else if (options.synthetic.empty()) {
    TANDEM_TRY(allow_affinity_mask(allowed.get()));
  }
  // Already without what the cgroup's cpuset forbids.
  hwloc_bitmap_and(allowed.get(), allowed.get(), hwloc_topology_get_allowed_cpuset(topology.get()));

  // Some virtual machines and containers show hardware threads but no cores.
  const bool has_cores = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  std::vector<Core> cores;
  const Bitmap usable(hwloc_bitmap_alloc());
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology.get(), type, object)) != nullptr;) {
    hwloc_bitmap_and(usable.get(), object->cpuset, allowed.get());
    Core core;
    for (int cpu = hwloc_bitmap_first(usable.get()); cpu >= 0;
         cpu = hwloc_bitmap_next(usable.get(), cpu)) {
      core.cpus.push_back(cpu);
    }
    if (core.cpus.empty()) continue;
    core.cpu = core.cpus.front();
    core.numa_node = node_of(topology.get(), object);
    cores.push_back(std::move(core));
  }
  if (cores.empty()) {
    return invalid("no usable core: the allowed cpus and this machine's have none in common");
  }
  std::stable_sort(cores.begin(), cores.end(),
                   [](const Core& a, const Core& b) { return a.numa_node < b.numa_node; });
  return cores;
}

}  // namespace tandem
