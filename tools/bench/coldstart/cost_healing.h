// How a planner heals whose costs are wrong on purpose: how far plans are off while cold starts
// come.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "tools/bench/coldstart/cold_adapters.h"
#include "tools/bench/coldstart/cold_runs.h"
#include "tools/bench/common/bench_report.h"
#include "tools/cli/settings.h"

namespace tandem {

// What was seen of some cold starts, one behind another.
struct HealingStage {
  std::int32_t starts = 0;  // so far, these included
  std::uint64_t steps = 0;  // of these: that handed rows over
  double planned_s = 0;     // what they were to take
  double taken_s = 0;       // and took
  double median_error = 0;  // |taken / planned - 1| of the last steps, at most 64 (EngineStats)
};

struct CostHealing {
  double cost_error = 1;  // times by which the first figures were too long
  std::vector<HealingStage> stages;
};

// In mode planned, from figures that say three times what is true and a third of it, not
// calibrated.
Result<std::vector<CostHealing>> run_healing(const EngineSettings& settings,
                                             const ColdStartOptions& options,
                                             ColdAdapters& adapters);

// A table, and N2 where it can be judged: all steps that the last stage's median is of are its own.
void report_healing(const std::vector<CostHealing>& healings, BenchReport& report);

}  // namespace tandem
