// What the cold start benchmark measured, as bars, tables and plots.
#pragma once

#include "tools/bench/coldstart/cold_runs.h"
#include "tools/bench/common/bench_report.h"

namespace tandem {

// C1 to C5 and C8 as far as they were asked for and their modes ran; every mode's distributions.
void report_cold_starts(const ColdRuns& runs, const ColdStartOptions& options, double tolerance,
                        BenchReport& report);

}  // namespace tandem
