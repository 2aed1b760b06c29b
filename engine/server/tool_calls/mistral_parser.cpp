// Parses [TOOL_CALLS][{..}, {..}], or [TOOL_CALLS]name{..} with optional [CALL_ID]id and [ARGS] in
// between.
#include <utility>

#include "engine/server/tool_calls/parsers.h"

namespace tandem {
namespace {

// Indexes into markers_of().
constexpr std::size_t kToolCalls = 0;
constexpr std::size_t kArgs = 1;

constexpr std::size_t kMaxWordBytes = 256;  // limit for a name and for an id

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == ':' || c == '/';
}

}  // namespace

MistralParser::MistralParser(const ToolParserOptions& options)
    : TextParser(options), state_(options.begins_with_call ? State::before : State::text) {}

void MistralParser::read(char c) {
  switch (state_) {
    case State::text:
      return read_text(c);
    case State::before:
      if (hold_space(c)) return;
      if (c == '[') {
        call().held += c;
        state_ = State::element;
        return;
      }
      name_.clear();
      state_ = State::name;
      return read_name(c);
    case State::element:
      if (hold_space(c)) return;
      if (c == '{') {
        call().start(false);
        in_list_ = true;
        state_ = State::call;
        return read_call(c);
      }
      leave();
      return read_text(c);
    case State::between:
      if (hold_space(c)) return;
      if (c == ',') {
        call().held += c;
        state_ = State::element;
        return;
      }
      if (c == ']') {
        call().held.clear();
        state_ = State::text;
        return;
      }
      leave();
      return read_text(c);
    case State::name:
      return read_name(c);
    case State::id:
    case State::arguments:
      return read_word(c);
    case State::call:
      return read_call(c);
  }
}

void MistralParser::read_name(char c) {
  if (in_word(c) && name_.size() < kMaxWordBytes) {
    name_ += c;
    call().held += c;
    return;
  }
  if (name_.empty()) {
    leave();
    return read_text(c);
  }
  state_ = State::arguments;
  read_word(c);
}

// Reads a byte between a name and its arguments.
void MistralParser::read_word(char c) {
  std::string text;
  if (const auto marker = find_marker(c, text)) {
    if (*marker == kToolCalls) {
      leave();
      return begin();
    }
    call().held += shown(*marker);
    state_ = *marker == kArgs ? State::arguments : State::id;
    id_bytes_ = 0;
    return;
  }
  for (const char each : text) take_word(each);  // several bytes after an incomplete marker
}

void MistralParser::take_word(char c) {
  if (state_ == State::text) return out().content({&c, 1});
  if (state_ == State::id && in_word(c) && id_bytes_ < kMaxWordBytes) {
    ++id_bytes_;
    call().held += c;
    return;
  }
  if (hold_space(c)) return;
  if (c == '{') {
    call().start_arguments(std::exchange(name_, {}));
    in_list_ = false;
    state_ = State::call;
    return read_call(c);
  }
  leave();
  out().content({&c, 1});
}

void MistralParser::read_call(char c) {
  const CallObject::Step step = call().push(c, out());
  if (step == CallObject::Step::more) return;
  if (call().is_call()) {
    state_ = in_list_ ? State::between : State::text;
  } else {
    leave();
  }
  if (step == CallObject::Step::refused) read(c);
}

void MistralParser::leave() {
  state_ = State::text;
  release();
}

void MistralParser::begin() {
  call().held = shown(kToolCalls);
  in_list_ = false;
  state_ = State::before;
}

void MistralParser::read_text(char c) {
  const auto marker = find_marker(c);
  if (!marker) return;
  if (*marker == kToolCalls) return begin();
  out().content(shown(*marker));
}

// The held-back rest of an unfinished list belongs to the calls.
void MistralParser::end() {
  if (state_ == State::between || (state_ == State::element && in_list_)) call().held.clear();
}

}  // namespace tandem
