#include "cpu_lora/worker_process/bind.h"

#include <hwloc.h>
#include <numa.h>

#include <cerrno>
#include <memory>

#include "base/log.h"

namespace tandem {

Status bind_to_cpu(int cpu) {
  if (cpu < 0) return {};
  hwloc_topology_t made = nullptr;
  if (::hwloc_topology_init(&made) != 0) return errno_status("hwloc_topology_init", errno);
  const std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> topology(
      made, &::hwloc_topology_destroy);
  if (::hwloc_topology_load(made) != 0) return errno_status("hwloc_topology_load", errno);
  const std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)> set(::hwloc_bitmap_alloc(),
                                                                      &::hwloc_bitmap_free);
  ::hwloc_bitmap_only(set.get(), static_cast<unsigned>(cpu));
  if (::hwloc_bitmap_isincluded(set.get(), ::hwloc_topology_get_allowed_cpuset(made)) == 0) {
    return invalid(
        "cpu {}: this process may not use it, or there is none; `tandem pin show` lists "
        "those that it may",
        cpu);
  }
  if (::hwloc_set_cpubind(made, set.get(), HWLOC_CPUBIND_PROCESS) != 0) {
    return errno_status(fmt::format("binding to cpu {}", cpu), errno);
  }
  return {};
}

void prefer_memory_of(int node) {
  if (node < 0 || ::numa_available() < 0) return;
  if (node > ::numa_max_node()) {
    log::warning("memory from any NUMA node: there is no node {}", node);
    return;
  }
  ::numa_set_preferred(node);
}

}  // namespace tandem
