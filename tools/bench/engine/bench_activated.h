// The first token of activated LoRA over a prefix that the base has computed.
#pragma once

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// Asks the base for a prompt of 8,192 tokens (at most half of the context), then 20 resident
// activated adapters and as many plain ones, by turns, for that prompt and a short end. Adds the
// bar A3, and how much of the prompts the prefix cache had.
Status measure_activated(const EngineSettings& settings, BenchReport& report);

}  // namespace tandem
