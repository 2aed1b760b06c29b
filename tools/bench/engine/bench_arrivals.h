// What it is worth to enqueue steps just in time: how soon a request that arrives while others
// decode has its first token.
#pragma once

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/cli/settings.h"

namespace tandem {

// Requests of 19 tokens for resident adapters, 9 a second, while a sequence decodes all the time:
// `rounds` of two engines by turns, one that enqueues steps just in time and one that enqueues them
// at once, the same requests for both. Adds the bar G11.
Status measure_arrivals(const EngineSettings& settings, int rounds, BenchReport& report);

}  // namespace tandem
