// What it costs a decode step that its texts must be something.
#pragma once

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/measure/bench_serving.h"

namespace tandem {

// Steps of 32 sequences that follow a JSON schema against steps of 32 free ones, `output_tokens` of
// each by turns, `rounds` times; both draw at temperature 1. Adds the bar S1. The engine runs 32
// sequences at least.
Status measure_constrained(ServingBench& bench, int rounds, std::int32_t output_tokens,
                           BenchReport& report);

}  // namespace tandem
