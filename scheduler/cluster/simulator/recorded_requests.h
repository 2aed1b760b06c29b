// Requests recorded from a real server, to be replayed in simulated time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/cluster/simulator/workload.h"

namespace tandem {

// Each line is an object; lines are sorted by arrival:
//
//   {"arrival_s": 0.25, "adapter": "python", "rank": 16, "prompt_tokens": 19, "answer_tokens": 58}
//
// Adapters are numbered in order of appearance; `adapters`, if given, receives their names by
// number. Refuses, naming the line: missing or out-of-range values, decreasing times, an adapter
// with two ranks, more than 10,000,000 requests, and an empty file.
Result<std::vector<SimRequest>> parse_recorded_requests(
    std::string_view text, std::vector<std::string>* adapters = nullptr);

}  // namespace tandem
