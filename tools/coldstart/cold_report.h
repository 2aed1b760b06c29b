// What the cold start benchmark measured, as bars, tables and plots.
#pragma once

#include "tools/bench_report.h"
#include "tools/coldstart/cold_runs.h"

namespace tandem {

// C1 to C5 and C8 as far as they were asked for and their modes ran; every mode's distributions.
void report_cold_starts(const ColdRuns& runs, const ColdStartOptions& options, double tolerance,
                        BenchReport& report);

}  // namespace tandem
