// Parses one tool call, {"name": .., "arguments": {..}}, byte by byte.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/server/tool_calls/parsed_text.h"

namespace tandem {

// Outputs the call as soon as it is certainly one, and holds the text back until then. Members
// other than these two are skipped. Arguments may be named "parameters", may come first, and may be
// the JSON text of an object, or null, which means {}. Brackets are counted and values are not
// validated: deep nesting costs nothing, and invalid JSON inside arguments is passed on to the
// client.
class CallObject {
 public:
  enum class Step {
    more,     // the byte belongs to the call
    done,     // the byte is the last of the call
    refused,  // the byte is not part of the call; is_call() is true if the call is complete enough
              // without it
  };

  // The held-back text, which becomes content if there is no call.
  std::string held;

  // Starts a call at the next byte, `{`. `strict` refuses members that calls do not have; used in
  // formats without markers, in which only the members identify a call.
  void start(bool strict);
  // Starts a call whose name was already read; the next byte, `{`, begins the arguments.
  void start_arguments(std::string name);
  Step push(char c, ParsedText& out);
  bool is_call() const { return is_call_; }

 private:
  enum class State {
    open,         // expects {
    first_key,    // expects " or }
    next_key,     // expects "
    key,          // until its end
    colon,        // expects :
    value,        // expects its first byte
    text,         // in a string, until its end
    nested,       // in an object or list, until its end
    plain,        // in a number, true, false or null
    after_value,  // expects , or }
  };
  enum class Member { name, arguments, other };

  Step read(char c, ParsedText& out);
  Step end_key();
  Step begin_value(char c, ParsedText& out);
  Step end_value(ParsedText& out);
  // Both consume one byte of the current state and return true for its last one.
  bool read_text(char c);
  bool read_nested(char c);
  // False if there are too many calls.
  bool begin_call(ParsedText& out);
  void take(char c, ParsedText& out);
  bool take_argument_text(bool plain);

  State state_ = State::open;
  Member member_ = Member::other;
  bool strict_ = false;
  bool bare_ = false;      // the name was already read
  bool escaped_ = false;   // the previous byte was a backslash
  bool in_text_ = false;   // for State::nested
  std::size_t depth_ = 0;  // for State::nested
  std::string value_;      // of the current key or member
  std::string name_;
  std::string arguments_;  // arguments that came before the name
  bool has_arguments_ = false;
  bool is_call_ = false;
};

}  // namespace tandem
