// The cost of tracing per decode step.
#pragma once

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// Alternates steps of 8 sequences that are traced to /dev/null with untraced ones, `rounds` times.
// Adds the bars L0 and L1.
Status measure_tracing(EngineSettings settings, std::int64_t rounds, BenchReport& report);

}  // namespace tandem
