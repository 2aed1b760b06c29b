// A cluster that is there: what an engine says of itself, and requests that it served.
#pragma once

#include <string_view>

#include "base/status.h"
#include "scheduler/simulator/machine.h"

namespace tandem {

// From what `GET /v1/stats` of an idle engine answers: the costs that it has learned, its places,
// KV and workers, and the bytes of its adapters (one at least must be loaded, in whatever tier).
Result<SimMachine> machine_from_stats(std::string_view text);

}  // namespace tandem
