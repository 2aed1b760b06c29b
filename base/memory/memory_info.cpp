#include "base/memory/memory_info.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {
namespace {

// The number after `key` (with its colon, if it has one) at the beginning of a line.
std::optional<std::size_t> number_after(const std::filesystem::path& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  std::size_t value = 0;
  for (std::string line; file >> word; std::getline(file, line)) {
    if (word == key) return file >> value ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

// The number that is the whole of a file; "max" (no limit) is none.
std::optional<std::size_t> number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

std::size_t difference(std::size_t from, std::size_t less) {
  return from > less ? from - less : 0;
}

}  // namespace

std::size_t available_memory(const std::filesystem::path& meminfo,
                             const std::filesystem::path& cgroup) {
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
  if (const auto kib = number_after(meminfo, "MemAvailable:")) bytes = *kib * 1024;
  const auto limit = number_in(cgroup / "memory.max");
  const auto used = number_in(cgroup / "memory.current");
  if (!limit || !used) return bytes;
  const std::filesystem::path stat = cgroup / "memory.stat";
  const std::size_t files = number_after(stat, "inactive_file").value_or(0) +
                            number_after(stat, "active_file").value_or(0);
  return std::min(bytes, difference(*limit, difference(*used, files)));
}

}  // namespace tandem
