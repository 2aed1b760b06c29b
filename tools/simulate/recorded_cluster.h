// Builds a simulated machine from a real engine's report.
#pragma once

#include <string_view>

#include "base/status.h"
#include "scheduler/cluster/simulator/machine.h"

namespace tandem {

// Reads the answer of `GET /v1/stats` from an idle engine: its learned costs, places, KV and
// workers, and the bytes of its adapters (at least one must be loaded, in any tier).
Result<SimMachine> machine_from_stats(std::string_view text);

}  // namespace tandem
