// Reports the sweep's results: a table for each link, and N1, the worst of its cells.
#pragma once

#include <vector>

#include "engine/service/adapter_mode.h"
#include "tools/bench/coldstart/cold_sweep.h"
#include "tools/bench/common/bench_report.h"

namespace tandem {

// `modes` are those given to run_sweep().
void report_sweep(const std::vector<SweepCell>& cells, const std::vector<AdapterMode>& modes,
                  BenchReport& report);

}  // namespace tandem
