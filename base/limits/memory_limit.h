// The memory that a container's limits allow (docker --memory, Kubernetes limits).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/limits/cgroup.h"

namespace tandem {

struct MemoryLimit {
  std::size_t bytes = 0;       // the limit itself
  std::size_t free_bytes = 0;  // left below it; the group's cached files count as free
  std::string where;           // the file of the limit: "/sys/fs/cgroup/x/memory.max"
};

// The limit with the least memory left, of the process's group and its ancestors; unset: no limit.
// Beyond memory.high the kernel slows a group down almost to a halt, so it counts as a limit.
// Version 1 also reports limits of groups that no mount shows. Thread-safe.
std::optional<MemoryLimit> read_memory_limit(const CgroupPaths& paths = {});

// "268.4 MB free of 536.9 MB (/sys/fs/cgroup/x/memory.max)"
std::string to_text(const MemoryLimit& limit);

}  // namespace tandem
