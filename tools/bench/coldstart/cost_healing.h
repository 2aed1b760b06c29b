// Measures how a planner corrects its costs: they are wrong on purpose, and the error of the plans
// is recorded over many cold starts.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "tools/bench/coldstart/cold_adapters.h"
#include "tools/bench/coldstart/cold_runs.h"
#include "tools/bench/common/bench_report.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// The observations from some consecutive cold starts.
struct HealingStage {
  std::int32_t starts = 0;  // in total, including these
  std::uint64_t steps = 0;  // of this stage, that handed rows to workers
  double planned_s = 0;     // their predicted time
  double taken_s = 0;       // their actual time
  // |taken / planned - 1|, median of the last 64 steps at most (EngineStats).
  double median_error = 0;
};

struct CostHealing {
  double cost_error = 1;  // factor by which the initial costs were too long
  std::vector<HealingStage> stages;
};

// Runs mode planned with initial costs of three times the true values and of a third of them,
// without calibration.
Result<std::vector<CostHealing>> run_healing(const EngineSettings& settings,
                                             const ColdStartOptions& options,
                                             ColdAdapters& adapters);

// A table, and N2 if all steps in the last stage's median belong to that stage.
void report_healing(const std::vector<CostHealing>& healings, BenchReport& report);

}  // namespace tandem
