// Counts of engines, and log lines about changes by a report, for the router and the picker.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/cluster/members/cluster.h"

namespace tandem {

struct EngineCounts {
  std::int64_t up = 0;   // engines whose reports arrive
  std::int64_t all = 0;  // engines that were not removed
  bool ready = false;    // one of them accepts requests
};

inline EngineCounts count_engines(const std::vector<EngineState>& engines) {
  EngineCounts counts;
  for (const EngineState& engine : engines) {
    counts.all += engine.gone ? 0 : 1;
    counts.up += engine.up ? 1 : 0;
    counts.ready = counts.ready || engine.usable();
  }
  return counts;
}

// The changes of an engine's state by a report.
class EngineNews {
 public:
  explicit EngineNews(const EngineState& before)
      : was_up_(before.up), drained_(before.report.draining) {}
  void log_change(const EngineState& after) const;

 private:
  bool was_up_;
  bool drained_;
};

}  // namespace tandem
