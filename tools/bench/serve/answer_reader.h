// Reads a streamed answer and the times of its tokens from bytes and times that the caller passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "tools/bench/serve/plan/request_body.h"

namespace tandem {

// The content of a stream so far.
struct AnswerTimes {
  TimePoint first{};                // of the first event with a token; valid if `events` > 0
  TimePoint last{};                 // of the last event with a token
  std::vector<float> gaps_ms;       // between events with tokens
  std::int64_t events = 0;          // with tokens
  std::int64_t prompt_tokens = -1;  // counted by the server; -1: not reported
  std::int64_t output_tokens = -1;
  std::string text;  // only if it is to be kept
  // Location of the adapter when the request came, which our servers report at the end: "device",
  // "host", ...; empty: not reported.
  std::string adapter_tier;
  bool finished = false;  // a finish reason or [DONE] came
  std::string mistake;    // the first event that reports an error or cannot be read
};

// Reads server-sent events, which may be cut anywhere into pieces.
class AnswerReader {
 public:
  AnswerReader(Dialect dialect, bool keep_text) : dialect_(dialect), keep_text_(keep_text) {}

  // `now`: the time at which these bytes were read.
  void take(std::string_view bytes, TimePoint now);
  const AnswerTimes& answer() const { return answer_; }
  AnswerTimes take_answer() { return std::move(answer_); }

 private:
  void take_line(std::string_view line, TimePoint now);
  void take_event(std::string_view data, TimePoint now);
  void fail(std::string reason);

  // Limit for a line that has not ended yet.
  static constexpr std::size_t kMaxLineBytes = std::size_t{4} << 20;

  Dialect dialect_;
  bool keep_text_;
  std::string partial_;
  AnswerTimes answer_;
};

// Returns a one-line reason from an answer that is no stream: the "message" of OpenAI's errors, or
// else the beginning of the body.
std::string error_text(std::string_view body);

}  // namespace tandem
