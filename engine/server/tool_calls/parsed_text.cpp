#include "engine/server/tool_calls/parsed_text.h"

#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// Longer runs of white space are intended output, and the held-back text must be bounded.
constexpr std::size_t kMaxSpace = 256;

}  // namespace

void ParsedText::flush_space() {
  // White space between leading calls and the text after them is dropped.
  if (num_calls_ > 0 && !has_text_) space_.clear();
  delta_.content += space_;
  space_.clear();
}

void ParsedText::content(std::string_view text) {
  for (const char c : text) {
    if (is_json_space(c) && space_.size() < kMaxSpace) {
      space_ += c;
      continue;
    }
    flush_space();
    has_text_ = true;
    delta_.content += c;
  }
}

void ParsedText::start_call(std::string name) {
  delta_.calls.push_back({num_calls_, std::move(name), {}});
  ++num_calls_;
}

void ParsedText::arguments(std::string_view text) {
  TANDEM_CHECK(num_calls_ > 0, "arguments of no call");
  if (delta_.calls.empty() || delta_.calls.back().index != num_calls_ - 1) {
    delta_.calls.push_back({num_calls_ - 1, {}, {}});
  }
  delta_.calls.back().arguments += text;
}

ParsedDelta ParsedText::take() {
  return std::exchange(delta_, {});
}

ParsedDelta ParsedText::finish() {
  if (num_calls_ == 0) flush_space();
  space_.clear();
  return take();
}

}  // namespace tandem
