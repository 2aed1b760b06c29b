// How much memory this process could still get.
#pragma once

#include <cstddef>
#include <filesystem>

namespace tandem {

// Bytes that can be allocated now without swapping: the smaller of the machine's and the cgroup's.
// What the cgroup holds of files counts as free: the kernel gives it back when asked. The paths are
// for tests.
std::size_t available_memory(const std::filesystem::path& meminfo = "/proc/meminfo",
                             const std::filesystem::path& cgroup = "/sys/fs/cgroup");

}  // namespace tandem
