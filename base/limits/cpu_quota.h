// The CPU time that a container's quota leaves (docker --cpus, Kubernetes limits).
#pragma once

#include <optional>
#include <string>

#include "base/limits/cgroup.h"

namespace tandem {

struct CpuQuota {
  double cpus = 0;    // CPU seconds a second, above 0
  std::string where;  // the file that says it: "/sys/fs/cgroup/x/cpu.max"

  // Threads that can compute all the time together take no more than this: rounded up, at least 1.
  int whole_cores() const;
};

// The smallest of the process's group and those above it; unset: no quota. Reads files at each
// call, in some tens of microseconds. Thread-safe.
std::optional<CpuQuota> read_cpu_quota(const CgroupPaths& paths = {});

// "1.5 cores of CPU time (/sys/fs/cgroup/x/cpu.max)"
std::string to_text(const CpuQuota& quota);

}  // namespace tandem
