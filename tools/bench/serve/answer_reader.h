// A streamed answer, from its bytes to when its tokens came. No sockets and no clock: it is fed.
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

// What a stream has said so far.
struct AnswerTimes {
  TimePoint first{};                // the first event with a token; read `events` first
  TimePoint last{};                 // the last one
  std::vector<float> gaps_ms;       // between one and the next
  std::int64_t events = 0;          // with tokens
  std::int64_t prompt_tokens = -1;  // as the server counted; -1: it has not told
  std::int64_t output_tokens = -1;
  std::string text;  // if it is kept
  // Where the adapter was when the request came, as our servers tell at the end: "device", "host",
  // ...; empty: not told.
  std::string adapter_tier;
  bool finished = false;  // a reason to end, or [DONE]
  std::string mistake;    // the first event that says it failed, or that cannot be read
};

// Reads server-sent events as they come, in whatever pieces.
class AnswerReader {
 public:
  AnswerReader(Dialect dialect, bool keep_text) : dialect_(dialect), keep_text_(keep_text) {}

  // `now`: when these bytes were read.
  void take(std::string_view bytes, TimePoint now);
  const AnswerTimes& answer() const { return answer_; }
  AnswerTimes take_answer() { return std::move(answer_); }

 private:
  void take_line(std::string_view line, TimePoint now);
  void take_event(std::string_view data, TimePoint now);
  void fail(std::string reason);

  // Of a line that has no end yet.
  static constexpr std::size_t kMaxLineBytes = std::size_t{4} << 20;

  Dialect dialect_;
  bool keep_text_;
  std::string partial_;
  AnswerTimes answer_;
};

// What an answer that is no stream says went wrong, in a line: the "message" of OpenAI's errors, or
// the beginning of the body.
std::string error_text(std::string_view body);

}  // namespace tandem
