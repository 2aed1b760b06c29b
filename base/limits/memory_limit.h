// The memory that a container's limits leave (docker --memory, Kubernetes limits).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/limits/cgroup.h"

namespace tandem {

struct MemoryLimit {
  std::size_t bytes = 0;       // the limit itself
  std::size_t free_bytes = 0;  // that it leaves; what the group caches of files counts as free
  std::string where;           // the file that says it: "/sys/fs/cgroup/x/memory.max"
};

// The limit that leaves least, of the process's group and those above it; unset: no limit. Beyond
// memory.high the kernel slows a group down until it stands still, so that it counts as a limit.
// Version 1 also says what limits groups that no mount shows. Thread-safe.
std::optional<MemoryLimit> read_memory_limit(const CgroupPaths& paths = {});

// "268.4 MB free of 536.9 MB (/sys/fs/cgroup/x/memory.max)"
std::string to_text(const MemoryLimit& limit);

}  // namespace tandem
