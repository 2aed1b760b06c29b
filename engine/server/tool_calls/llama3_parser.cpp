// Parses {..}; {..} at the beginning of an answer or after <|python_tag|>.
#include "engine/server/tool_calls/parsers.h"

namespace tandem {

void Llama3Parser::read(char c) {
  switch (state_) {
    case State::start:
      if (c == '{') return begin(c);
      if (!is_json_space(c)) state_ = State::text;
      return read_text(c);
    case State::text:
      return read_text(c);
    case State::before:
    case State::between:
      if (c == '{') return begin(c);
      if (hold_space(c)) return;
      if (c == ';' && state_ == State::between && call().held.size() < kMaxHeldBytes) {
        call().held += c;
        return;
      }
      leave();
      return read_text(c);
    case State::call:
      return read_call(c);
  }
}

void Llama3Parser::begin(char c) {
  call().start(true);
  state_ = State::call;
  read_call(c);
}

void Llama3Parser::read_call(char c) {
  const CallObject::Step step = call().push(c, out());
  if (step == CallObject::Step::more) return;
  if (call().is_call()) {
    state_ = State::between;
  } else {
    leave();
  }
  if (step == CallObject::Step::refused) read(c);
}

void Llama3Parser::leave() {
  state_ = State::text;
  release();
}

void Llama3Parser::read_text(char c) {
  if (!find_marker(c)) return;
  call().held = shown(0);
  state_ = State::before;
}

// A trailing separator belongs to the calls.
void Llama3Parser::end() {
  if (state_ == State::between) call().held.clear();
}

}  // namespace tandem
