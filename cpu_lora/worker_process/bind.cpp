#include "cpu_lora/worker_process/bind.h"

#include <numa.h>

#include <array>

#include "base/log/log.h"
#include "base/threads/thread_cpus.h"

namespace tandem {

Status bind_to_cpu(int cpu) {
  if (cpu < 0) return {};
  Status bound = set_cpus_of_thread(std::array{cpu});
  if (bound.code() == StatusCode::permission_denied) {
    log::warning("a worker could not be bound to its core and runs where the kernel puts it: {}",
                 bound.message());
    return {};
  }
  if (bound.code() != StatusCode::invalid_argument) return bound;
  return invalid(
      "cpu {}: this process may not use it, or there is none; `tandem pin show` lists those that "
      "it may",
      cpu);
}

void prefer_memory_of(int node) {
  if (node < 0 || ::numa_available() < 0 || ::numa_max_node() < 0) return;
  if (node > ::numa_max_node()) {
    log::warning("a worker's memory may be on any NUMA node: there is no node {}", node);
    return;
  }
  ::numa_set_preferred(node);
}

}  // namespace tandem
