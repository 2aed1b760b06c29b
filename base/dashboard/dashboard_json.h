// The parts of a picture's JSON that the engine and the router share.
#pragma once

#include <string>

#include "base/dashboard/latency_history.h"

namespace tandem {

// The text of a JSON object without its braces.
std::string members_of(const std::string& object);

// "slice_s" and "latency": [[requests, TTFT p50, p95, TPOT p50, p95], ...] in seconds, oldest
// first; null: no request had a second token; [0]: no request ended.
std::string latency_members(const LatencyHistory& history);

}  // namespace tandem
