// Reports the results of the cold start benchmark as bars, tables and plots.
#pragma once

#include "tools/bench/coldstart/cold_runs.h"
#include "tools/bench/common/bench_report.h"

namespace tandem {

// Adds C1 to C5 and C8, if selected and if their modes ran, and the distributions of every mode.
void report_cold_starts(const ColdRuns& runs, const ColdStartOptions& options, double tolerance,
                        BenchReport& report);

}  // namespace tandem
