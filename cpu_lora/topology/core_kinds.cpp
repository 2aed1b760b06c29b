#include "cpu_lora/topology/core_kinds.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <string>
#include <vector>

#include "base/text/shown_text.h"
#include "cpu_lora/topology/hwloc_handles.h"

namespace tandem {
namespace {

struct RankedKind {
  MachineCoreKind kind;
  Bitmap cpus;
};

MachineCoreKind describe(std::span<const hwloc_info_s> infos) {
  MachineCoreKind kind;
  for (const hwloc_info_s& info : infos) {
    const std::string_view name = info.name;
    const std::string_view value = info.value;
    if (name == "CoreType") kind.name = shown_text(value);
    if (name == "FrequencyMaxMHz") {
      std::from_chars(value.data(), value.data() + value.size(), kind.max_mhz);
    }
  }
  return kind;
}

// The kinds, fastest first; empty if hwloc cannot rank them.
std::vector<RankedKind> ranked_kinds(hwloc_topology_t topology) {
  std::vector<RankedKind> ranked;
  for (int index = hwloc_cpukinds_get_nr(topology, 0) - 1; index >= 0; --index) {
    Bitmap cpus(hwloc_bitmap_alloc());
    int efficiency = -1;
    unsigned num_infos = 0;
    hwloc_info_s* infos = nullptr;
    if (hwloc_cpukinds_get_info(topology, static_cast<unsigned>(index), cpus.get(), &efficiency,
                                &num_infos, &infos, 0) != 0 ||
        efficiency < 0) {
      return {};
    }
    ranked.push_back({describe({infos, num_infos}), std::move(cpus)});
  }
  return ranked;
}

}  // namespace

void read_core_kinds(hwloc_topology_t topology, MachineMap& map) {
  std::vector<RankedKind> ranked = ranked_kinds(topology);
  const auto has = [](const RankedKind& kind, const MachineCore& core) {
    return hwloc_bitmap_isset(kind.cpus.get(), static_cast<unsigned>(core.threads.front().cpu)) !=
           0;
  };
  // A kind whose cores are all offline would leave a gap in the ranks.
  std::erase_if(ranked, [&](const RankedKind& kind) {
    return std::ranges::none_of(map.cores,
                                [&](const MachineCore& core) { return has(kind, core); });
  });
  if (ranked.size() < 2) return;
  for (MachineCore& core : map.cores) {
    const auto kind =
        std::ranges::find_if(ranked, [&](const RankedKind& each) { return has(each, core); });
    // A core of unknown kind is not preferred to a core that is known to be faster.
    core.speed_rank = static_cast<int>(std::min(kind - ranked.begin(), std::ssize(ranked) - 1));
  }
  for (RankedKind& each : ranked) map.core_kinds.push_back(std::move(each.kind));
}

}  // namespace tandem
