#include "base/limits/cpu_quota.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::optional<CpuQuota> quota_of(std::optional<std::size_t> time_us,
                                 std::optional<std::size_t> period_us, const fs::path& where) {
  if (!time_us || !period_us || *time_us == 0 || *period_us == 0) return std::nullopt;
  return CpuQuota{static_cast<double>(*time_us) / static_cast<double>(*period_us), where.string()};
}

// "TIME PERIOD" in microseconds, or "max PERIOD".
std::optional<CpuQuota> read_second(const fs::path& folder) {
  const fs::path file = folder / "cpu.max";
  const std::string text = read_cgroup_file(file);
  const std::size_t blank = text.find(' ');
  if (blank == std::string::npos) return std::nullopt;
  return quota_of(leading_number(text), leading_number(std::string_view(text).substr(blank + 1)),
                  file);
}

// A time of -1 means no quota.
std::optional<CpuQuota> read_first(const fs::path& folder) {
  const fs::path file = folder / "cpu.cfs_quota_us";
  return quota_of(leading_number(read_cgroup_file(file)),
                  leading_number(read_cgroup_file(folder / "cpu.cfs_period_us")), file);
}

}  // namespace

int CpuQuota::whole_cores() const {
  constexpr double kMost = 1 << 20;  // no machine has more, and it fits an int
  return static_cast<int>(std::ceil(std::clamp(cpus, 1.0, kMost)));
}

std::optional<CpuQuota> read_cpu_quota(const CgroupPaths& paths) {
  std::optional<CpuQuota> smallest;
  for (const CgroupChain& chain : find_cgroups("cpu", paths)) {
    for (const fs::path& folder : chain.folders) {
      std::optional<CpuQuota> quota = chain.version == 1 ? read_first(folder) : read_second(folder);
      if (quota && (!smallest || quota->cpus < smallest->cpus)) smallest = std::move(quota);
    }
  }
  return smallest;
}

std::string to_text(const CpuQuota& quota) {
  return fmt::format("{:.4g} core{} of CPU time ({})", quota.cpus, quota.cpus == 1 ? "" : "s",
                     quota.where);
}

}  // namespace tandem
