// Sends a plan's requests when they are due, regardless of the earlier ones, and records the
// answers. One thread and one event loop carry thousands of streams.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "tools/bench/serve/load_target.h"
#include "tools/bench/serve/plan/load_plan.h"
#include "tools/bench/serve/plan/request_body.h"
#include "tools/bench/serve/results/request_record.h"

namespace tandem {

struct LoadRunOptions {
  std::string path = "/v1/completions";
  std::string model;  // name of the base model
  BodyOptions body;
  std::int64_t max_concurrency = 0;  // running requests; 0: no limit
  double request_timeout_s = 600;    // from sending to the end of the answer
  // If not negative: pause between the last answer of a burst and the next burst.
  double burst_pause_s = -1;
  bool keep_text = false;
};

struct LoadState {
  double elapsed_s = 0;
  std::int64_t sent = 0;
  std::int64_t running = 0;
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::int64_t output_tokens = 0;  // of completed requests
  double last_ttft_ms = 0;         // of the most recently completed request
};

struct LoadOutcome {
  std::vector<RequestRecord> records;  // in the order of the plan
  double duration_s = 0;               // from the first due time to the last end
  bool stopped = false;                // stopped before all requests were answered
};

// Runs the plan to its end, or until `tick`, called about ten times a second, returns false:
// running requests are then given up. It never fails as a whole: servers that refuse, reset, hang
// or send nonsense cause failed requests. Starts no thread.
LoadOutcome run_load(const LoadPlan& plan, const PromptMaker& maker, const LoadTarget& target,
                     const LoadRunOptions& options,
                     const std::function<bool(const LoadState&)>& tick);

}  // namespace tandem
