// Parts of a picture's JSON that the engine's and the router's share.
#pragma once

#include <string>

#include "base/dashboard/latency_history.h"

namespace tandem {

// A JSON object's text without its braces.
std::string members_of(const std::string& object);

// "slice_s" and "latency": [[requests, TTFT p50, p95, TPOT p50, p95], ...] in seconds, oldest
// first; null: no request had further tokens; [0]: nothing ended.
std::string latency_members(const LatencyHistory& history);

}  // namespace tandem
