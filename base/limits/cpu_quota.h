// The CPU time that a container's quota allows (docker --cpus, Kubernetes limits).
#pragma once

#include <optional>
#include <string>

#include "base/limits/cgroup.h"

namespace tandem {

struct CpuQuota {
  double cpus = 0;    // CPU seconds per second, above 0
  std::string where;  // the file of the quota: "/sys/fs/cgroup/x/cpu.max"

  // The number of threads that can compute all the time within the quota: rounded up, at least 1.
  int whole_cores() const;
};

// The smallest quota of the process's group and its ancestors; unset: no quota. Reads files at each
// call, which takes some tens of microseconds. Thread-safe.
std::optional<CpuQuota> read_cpu_quota(const CgroupPaths& paths = {});

// "1.5 cores of CPU time (/sys/fs/cgroup/x/cpu.max)"
std::string to_text(const CpuQuota& quota);

}  // namespace tandem
