// How much memory this process could still get.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

#include "base/limits/cgroup.h"
#include "base/limits/memory_limit.h"

namespace tandem {

struct MemoryPaths {
  std::filesystem::path meminfo = "/proc/meminfo";
  CgroupPaths cgroup;
};

struct MemoryRoom {
  std::size_t free_bytes = 0;        // that can be allocated now without swapping
  std::optional<MemoryLimit> limit;  // set where a cgroup leaves less than the machine has
};

// The smaller of what the machine has and what every cgroup leaves that the process is in. What
// they hold of files counts as free: the kernel gives it back when asked. Thread-safe.
MemoryRoom memory_room(const MemoryPaths& paths = {});
std::size_t available_memory(const MemoryPaths& paths = {});  // its free_bytes

}  // namespace tandem
