// The cost of constrained output per decode step.
#pragma once

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/measure/bench_serving.h"

namespace tandem {

// Alternates steps of 32 sequences that follow a JSON schema with steps of 32 unconstrained ones,
// `rounds` times with `output_tokens` each; both sample at temperature 1. Adds the bar S1. The
// engine must allow at least 32 sequences.
Status measure_constrained(ServingBench& bench, int rounds, std::int32_t output_tokens,
                           BenchReport& report);

}  // namespace tandem
