// Collects the output of a tool parser from push to push, without the white space around calls.
#pragma once

#include <string>
#include <string_view>

#include "engine/server/tool_calls/tool_parser.h"

namespace tandem {

class ParsedText {
 public:
  void content(std::string_view text);
  void start_call(std::string name);
  // Requires a call; adds to the last one started.
  void arguments(std::string_view text);
  std::int32_t num_calls() const { return num_calls_; }

  ParsedDelta take();
  ParsedDelta finish();

 private:
  void flush_space();

  ParsedDelta delta_;
  std::string space_;  // white space at the end of the content; dropped if only calls follow
  bool has_text_ = false;
  std::int32_t num_calls_ = 0;
};

// JSON's white space, which is dropped around calls.
constexpr bool is_json_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

}  // namespace tandem
