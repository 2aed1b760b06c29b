#include "base/limits/memory_limit.h"

#include <fmt/format.h>

#include <string_view>

#include "base/limits/bytes_text.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// Version 1 reports "no limit" as the largest whole number of pages.
constexpr std::size_t kNoLimit = std::size_t{1} << 62;

// The number after `key` in a line that begins with it.
std::optional<std::size_t> number_after(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    if (text.starts_with(key) && text.size() > key.size() && text[key.size()] == ' ') {
      return leading_number(text.substr(key.size() + 1));
    }
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return std::nullopt;
}

std::size_t difference(std::size_t from, std::size_t less) {
  return from > less ? from - less : 0;
}

// Names of files, and of keys in memory.stat.
struct Names {
  const char* used;
  const char* inactive_files;
  const char* active_files;
};
constexpr Names kFirst{"memory.usage_in_bytes", "total_inactive_file", "total_active_file"};
constexpr Names kSecond{"memory.current", "inactive_file", "active_file"};

class Smallest {
 public:
  void add(std::optional<std::size_t> bytes, std::size_t used, std::string where) {
    if (!bytes || *bytes >= kNoLimit) return;
    const std::size_t free = difference(*bytes, used);
    if (!limit_ || free < limit_->free_bytes) limit_ = {*bytes, free, std::move(where)};
  }
  std::optional<MemoryLimit> take() { return std::move(limit_); }

 private:
  std::optional<MemoryLimit> limit_;
};

// Excludes cached files that the kernel drops on demand.
std::size_t used_bytes(const fs::path& folder, const Names& names, std::string_view stat) {
  return difference(leading_number(read_cgroup_file(folder / names.used)).value_or(0),
                    number_after(stat, names.inactive_files).value_or(0) +
                        number_after(stat, names.active_files).value_or(0));
}

void read_second(const CgroupChain& chain, Smallest& smallest) {
  for (const fs::path& folder : chain.folders) {
    const std::size_t used = used_bytes(folder, kSecond, read_cgroup_file(folder / "memory.stat"));
    for (const char* name : {"memory.max", "memory.high"}) {
      const fs::path file = folder / name;
      smallest.add(leading_number(read_cgroup_file(file)), used, file.string());
    }
  }
}

void read_first(const CgroupChain& chain, Smallest& smallest) {
  for (std::size_t i = 0; i < chain.folders.size(); ++i) {
    const fs::path& folder = chain.folders[i];
    // Old kernels can have groups whose limit does not apply to groups below.
    if (i > 0 && read_cgroup_file(folder / "memory.use_hierarchy").starts_with('0')) break;
    const std::string stat = read_cgroup_file(folder / "memory.stat");
    const std::size_t used = used_bytes(folder, kFirst, stat);
    const fs::path file = folder / "memory.limit_in_bytes";
    const std::optional<std::size_t> limit = leading_number(read_cgroup_file(file));
    smallest.add(limit, used, file.string());
    if (i > 0) continue;
    // The smallest limit of all ancestors, including those that no mount shows.
    const std::optional<std::size_t> above = number_after(stat, "hierarchical_memory_limit");
    if (!limit || (above && *above < *limit)) {
      smallest.add(
          above, used,
          fmt::format("hierarchical_memory_limit of {}", (folder / "memory.stat").string()));
    }
  }
}

}  // namespace

std::optional<MemoryLimit> read_memory_limit(const CgroupPaths& paths) {
  Smallest smallest;
  for (const CgroupChain& chain : find_cgroups("memory", paths)) {
    chain.version == 1 ? read_first(chain, smallest) : read_second(chain, smallest);
  }
  return smallest.take();
}

std::string to_text(const MemoryLimit& limit) {
  return fmt::format("{} free of {} ({})", bytes_text(static_cast<double>(limit.free_bytes)),
                     bytes_text(static_cast<double>(limit.bytes)), limit.where);
}

}  // namespace tandem
