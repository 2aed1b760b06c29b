// What became of one request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/serve/plan/adapter_choice.h"

namespace tandem {

enum class RequestOutcome {
  unsent,  // the run was over before its turn
  ok,
  failed,       // `error` says why
  interrupted,  // it ran when the run was stopped
};

// Times in seconds from the run's begin.
struct RequestRecord {
  RequestOutcome outcome = RequestOutcome::unsent;
  std::int32_t adapter = kBaseModel;
  double due_s = 0;    // when the plan sends it
  double sent_s = 0;   // when it was sent: later if the limit on how many run held it, or if this
                       // program was behind
  double first_s = 0;  // the first token
  double last_s = 0;   // the last token
  double end_s = 0;    // when it was over, however it ended
  std::vector<float> gaps_ms;      // between events with tokens
  std::int64_t prompt_tokens = 0;  // as the server counted, else as planned
  std::int64_t output_tokens = 0;  // as the server counted, else events
  bool first_touch = false;        // the first of the run for its adapter
  std::string adapter_tier;        // as AnswerTimes's
  std::string error;
  std::string text;
};

// The adapter was not on the device: as the server says, else by the first touch.
inline bool is_cold(const RequestRecord& record) {
  if (record.adapter == kBaseModel) return false;
  return record.adapter_tier.empty() ? record.first_touch : record.adapter_tier != "device";
}

}  // namespace tandem
