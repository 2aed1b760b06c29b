// What a tool parser says: collected from push to push, with the white space around calls left out.
#pragma once

#include <string>
#include <string_view>

#include "engine/server/tool_calls/tool_parser.h"

namespace tandem {

class ParsedText {
 public:
  void content(std::string_view text);
  void start_call(std::string name);
  // Requires a call; of the one that was started last.
  void arguments(std::string_view text);
  std::int32_t num_calls() const { return num_calls_; }

  ParsedDelta take();
  ParsedDelta finish();

 private:
  void flush_space();

  ParsedDelta delta_;
  std::string space_;  // the last of the content so far: nothing, if calls are all that follows
  bool has_text_ = false;
  std::int32_t num_calls_ = 0;
};

// JSON's, and what is left out around calls.
constexpr bool is_json_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

}  // namespace tandem
