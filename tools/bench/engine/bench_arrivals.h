// The gain from enqueuing steps just in time: how soon a request that arrives while others decode
// gets its first token.
#pragma once

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// Requests of 19 tokens for resident adapters arrive 9 times a second while one sequence decodes
// throughout. Two engines alternate for `rounds` rounds with the same requests: one enqueues steps
// just in time, the other at once. Adds the bar G11.
Status measure_arrivals(const EngineSettings& settings, int rounds, BenchReport& report);

}  // namespace tandem
