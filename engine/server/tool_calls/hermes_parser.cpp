// Parses any number of <tool_call>{..}</tool_call> with text around them.
#include <utility>

#include "engine/server/tool_calls/parsers.h"

namespace tandem {

HermesParser::HermesParser(const ToolParserOptions& options)
    : TextParser(options), state_(options.begins_with_call ? State::before : State::text) {}

void HermesParser::read(char c) {
  if (state_ == State::text) return read_text(c);
  if (state_ == State::before) {
    if (hold_space(c)) return;
    call().start(false);
    state_ = State::call;
  }
  const CallObject::Step step = call().push(c, out());
  if (step == CallObject::Step::more) return;
  state_ = State::text;
  closes_ = call().is_call();
  release();
  if (step == CallObject::Step::refused) read_text(c);
}

void HermesParser::read_text(char c) {
  const auto marker = find_marker(c);
  if (!marker) return;
  if (*marker == 0) {
    call().held = shown(0);
    state_ = State::before;
  } else if (!std::exchange(closes_, false)) {
    out().content(shown(*marker));
  }
}

}  // namespace tandem
