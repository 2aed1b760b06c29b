#include "base/memory/memory_info.h"

#include <fstream>
#include <limits>
#include <string>
#include <utility>

namespace tandem {
namespace {

// The largest number if the file does not contain it.
std::size_t machine_memory(const std::filesystem::path& meminfo) {
  std::ifstream file(meminfo);
  std::string word;
  std::size_t kib = 0;
  for (std::string line; file >> word; std::getline(file, line)) {
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace

MemoryRoom memory_room(const MemoryPaths& paths) {
  MemoryRoom room{machine_memory(paths.meminfo), std::nullopt};
  std::optional<MemoryLimit> limit = read_memory_limit(paths.cgroup);
  if (limit && limit->free_bytes < room.free_bytes) {
    room.free_bytes = limit->free_bytes;
    room.limit = std::move(limit);
  }
  return room;
}

std::size_t available_memory(const MemoryPaths& paths) {
  return memory_room(paths).free_bytes;
}

}  // namespace tandem
