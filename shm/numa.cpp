#include "shm/numa.h"

#include <numa.h>
#include <numaif.h>

#include <cerrno>
#include <memory>

#include "base/log/log.h"
#include "base/status.h"

namespace tandem {

void prefer_node(void* begin, std::size_t bytes, int node) {
  if (node < 0 || ::numa_available() < 0) return;
  const std::unique_ptr<bitmask, void (*)(bitmask*)> nodes(::numa_allocate_nodemask(),
                                                           &::numa_bitmask_free);
  ::numa_bitmask_setbit(nodes.get(), static_cast<unsigned>(node));
  // The kernel expects the mask's length plus one.
  if (::mbind(begin, bytes, MPOL_PREFERRED, nodes->maskp, nodes->size + 1, 0) == 0) return;
  log::warning("shared memory may lie on any NUMA node: {}",
               errno_status("mbind to node " + std::to_string(node), errno).message());
}

}  // namespace tandem
