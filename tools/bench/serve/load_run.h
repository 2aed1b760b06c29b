// Sends a plan's requests when they are due, whatever becomes of those before, and notes what comes
// back. One thread, one event loop, thousands of streams.
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
  std::string model;  // the base's name
  BodyOptions body;
  std::int64_t max_concurrency = 0;  // that run at once; 0: any number
  double request_timeout_s = 600;    // from sending to the end
  // Not below zero: a burst begins so long after the last answer of the one before.
  double burst_pause_s = -1;
  bool keep_text = false;
};

struct LoadState {
  double elapsed_s = 0;
  std::int64_t sent = 0;
  std::int64_t running = 0;
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::int64_t output_tokens = 0;  // of those completed
  double last_ttft_ms = 0;         // of the latest one completed
};

struct LoadOutcome {
  std::vector<RequestRecord> records;  // in the plan's order
  double duration_s = 0;               // from the first due time to the last end
  bool stopped = false;                // before all were answered
};

// Runs the plan to its end, or until `tick`, which is called some ten times a second, says false:
// what then runs is given up. Never fails as a whole: servers that refuse, reset, hang or send
// nonsense make failed requests. No other thread is started.
LoadOutcome run_load(const LoadPlan& plan, const PromptMaker& maker, const LoadTarget& target,
                     const LoadRunOptions& options,
                     const std::function<bool(const LoadState&)>& tick);

}  // namespace tandem
