// Requests that were served for real, to be served again in simulated time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/simulator/workload.h"

namespace tandem {

// Each line an object, by arrival:
//
//   {"arrival_s": 0.25, "adapter": "python", "rank": 16, "prompt_tokens": 19, "answer_tokens": 58}
//
// Adapters are numbered as they come; `adapters`, if given, gets their names by number. Refuses by
// line what is missing or out of bounds, times that go back, an adapter of two ranks, more than
// 10,000,000 requests, and none at all.
Result<std::vector<SimRequest>> parse_recorded_requests(
    std::string_view text, std::vector<std::string>* adapters = nullptr);

}  // namespace tandem
