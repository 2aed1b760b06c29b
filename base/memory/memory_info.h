// The amount of memory that this process could still allocate.
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
  std::size_t free_bytes = 0;        // can be allocated now without swapping
  std::optional<MemoryLimit> limit;  // set if a cgroup leaves less than the machine has
};

// The smaller of the machine's free memory and what each of the process's cgroups leaves. Cached
// files count as free, as the kernel drops them on demand. Thread-safe.
MemoryRoom memory_room(const MemoryPaths& paths = {});
std::size_t available_memory(const MemoryPaths& paths = {});  // its free_bytes

}  // namespace tandem
