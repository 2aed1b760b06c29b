// The outcome of one request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/serve/plan/adapter_choice.h"

namespace tandem {

enum class RequestOutcome {
  unsent,  // the run ended before it
  ok,
  failed,       // `error` says why
  interrupted,  // the run was stopped while it ran
};

// Times in seconds from the run's start.
struct RequestRecord {
  RequestOutcome outcome = RequestOutcome::unsent;
  std::int32_t adapter = kBaseModel;
  double due_s = 0;            // planned time
  double sent_s = 0;           // time of sending: later if max_concurrency held the request, or if
                               // this program was behind
  double first_s = 0;          // of the first token
  double last_s = 0;           // of the last token
  double end_s = 0;            // of the end, successful or not
  std::vector<float> gaps_ms;  // between events with tokens
  std::int64_t prompt_tokens = 0;  // counted by the server, else as planned
  std::int64_t output_tokens = 0;  // counted by the server, else the number of events
  bool first_touch = false;        // first request of the run for its adapter
  std::string adapter_tier;        // see AnswerTimes
  std::string error;
  std::string text;
};

// True if the adapter was not on the device, by the server's report or else by `first_touch`.
inline bool is_cold(const RequestRecord& record) {
  if (record.adapter == kBaseModel) return false;
  return record.adapter_tier.empty() ? record.first_touch : record.adapter_tier != "device";
}

}  // namespace tandem
