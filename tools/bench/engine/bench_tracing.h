// What tracing costs a decode step.
#pragma once

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/cli/settings.h"

namespace tandem {

// Steps of 8 sequences of an engine, traced into a file that nobody keeps and not, `rounds` times
// by turns. Adds the bars L0 and L1.
Status measure_tracing(EngineSettings settings, std::int64_t rounds, BenchReport& report);

}  // namespace tandem
