#include "engine/server/tool_calls/call_object.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace tandem {
namespace {

constexpr std::size_t kMaxNameBytes = 256;
constexpr std::array<std::string_view, 5> kMembers = {"name", "arguments", "parameters", "type",
                                                      "id"};

// Decodes the raw bytes of a JSON string; nothing if they are invalid.
std::optional<std::string> decode(const std::string& raw) {
  const auto text = nlohmann::json::parse('"' + raw + '"', nullptr, false);
  if (!text.is_string()) return std::nullopt;
  return text.get<std::string>();
}

}  // namespace

void CallObject::start(bool strict) {
  std::string kept = std::move(held);
  *this = {};
  held = std::move(kept);
  strict_ = strict;
}

void CallObject::start_arguments(std::string name) {
  start(false);
  bare_ = true;
  name_ = std::move(name);
  member_ = Member::arguments;
  state_ = State::value;
}

CallObject::Step CallObject::push(char c, ParsedText& out) {
  if (!is_call_ && held.size() >= kMaxHeldBytes) return Step::refused;
  const Step step = read(c, out);
  if (step != Step::refused && !is_call_) held += c;
  return step;
}

CallObject::Step CallObject::read(char c, ParsedText& out) {
  switch (state_) {
    case State::open:
      if (c != '{') return Step::refused;
      state_ = State::first_key;
      return Step::more;
    case State::first_key:
    case State::next_key:
      if (is_json_space(c)) return Step::more;
      if (c != '"') return Step::refused;  // this includes an empty object, which is not a call
      value_.clear();
      state_ = State::key;
      return Step::more;
    case State::key:
      if (!read_text(c)) {
        if (value_.size() < kMaxNameBytes) value_ += c;
        return Step::more;
      }
      return end_key();
    case State::colon:
      if (c == ':') state_ = State::value;
      return c == ':' || is_json_space(c) ? Step::more : Step::refused;
    case State::value:
      return is_json_space(c) ? Step::more : begin_value(c, out);
    case State::text:
      if (read_text(c)) return end_value(out);
      if (member_ == Member::name && value_.size() >= kMaxNameBytes) return Step::refused;
      if (member_ != Member::other) value_ += c;
      return Step::more;
    case State::nested:
      if (member_ == Member::arguments) take(c, out);
      return read_nested(c) ? end_value(out) : Step::more;
    case State::plain:
      if (c == ',' || c == '}' || is_json_space(c)) {
        const Step step = end_value(out);
        return step == Step::refused ? step : read(c, out);  // one recursion: the value has ended
      }
      if (c == '"' || c == '{' || c == '[' || c == ']' || c == ':') return Step::refused;
      if (member_ == Member::arguments) value_ += c;
      return Step::more;
    case State::after_value:
      if (is_json_space(c)) return Step::more;
      if (c == ',') {
        state_ = State::next_key;
        return Step::more;
      }
      return c == '}' && is_call_ ? Step::done : Step::refused;
  }
  return Step::refused;
}

CallObject::Step CallObject::end_key() {
  // If a member occurs twice, the first one is used.
  if (value_ == "name" && name_.empty()) {
    member_ = Member::name;
  } else if ((value_ == "arguments" || value_ == "parameters") && !has_arguments_) {
    member_ = Member::arguments;
  } else {
    member_ = Member::other;
  }
  if (strict_ && !is_call_ &&
      std::find(kMembers.begin(), kMembers.end(), value_) == kMembers.end()) {
    return Step::refused;
  }
  state_ = State::colon;
  return Step::more;
}

CallObject::Step CallObject::begin_value(char c, ParsedText& out) {
  value_.clear();
  depth_ = 1;
  if (c == '"') {
    state_ = State::text;
    return Step::more;
  }
  if (c == '{' || c == '[') {
    if (member_ == Member::name || (member_ == Member::arguments && c == '[')) return Step::refused;
    if (member_ == Member::arguments) {
      if (!name_.empty() && !begin_call(out)) return Step::refused;
      take(c, out);
    }
    state_ = State::nested;
    return Step::more;
  }
  if (member_ == Member::name || c == '}' || c == ']' || c == ',' || c == ':') return Step::refused;
  value_ += c;
  state_ = State::plain;
  return Step::more;
}

CallObject::Step CallObject::end_value(ParsedText& out) {
  const State was = std::exchange(state_, State::after_value);
  if (member_ == Member::name) {
    name_ = decode(value_).value_or("");
    if (name_.empty()) return Step::refused;
  } else if (member_ == Member::arguments) {
    if (was != State::nested && !take_argument_text(was == State::plain)) return Step::refused;
    has_arguments_ = true;
  }
  if (!is_call_ && has_arguments_ && !name_.empty() && !begin_call(out)) return Step::refused;
  return bare_ ? Step::done : Step::more;
}

// Converts arguments that are not written as an object.
bool CallObject::take_argument_text(bool plain) {
  if (plain) {
    arguments_ = "{}";
    return value_ == "null";
  }
  const auto text = decode(value_);
  if (!text) return false;
  const std::size_t first = text->find_first_not_of(" \n\r\t");
  arguments_ = first == std::string::npos ? "{}" : text->substr(first);
  return arguments_.front() == '{';
}

bool CallObject::read_text(char c) {
  if (escaped_) {
    escaped_ = false;
    return false;
  }
  escaped_ = c == '\\';
  return c == '"';
}

bool CallObject::read_nested(char c) {
  if (in_text_) {
    in_text_ = !read_text(c);
    return false;
  }
  if (c == '"') in_text_ = true;
  if (c == '{' || c == '[') ++depth_;
  return (c == '}' || c == ']') && --depth_ == 0;
}

bool CallObject::begin_call(ParsedText& out) {
  if (out.num_calls() >= kMaxToolCalls) return false;
  out.start_call(name_);
  if (!arguments_.empty()) out.arguments(std::exchange(arguments_, {}));
  held.clear();
  is_call_ = true;
  return true;
}

void CallObject::take(char c, ParsedText& out) {
  if (is_call_) {
    out.arguments({&c, 1});
  } else {
    arguments_ += c;
  }
}

}  // namespace tandem
