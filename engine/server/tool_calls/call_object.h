// Reads one call, {"name": .., "arguments": {..}}, byte by byte.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "engine/server/tool_calls/parsed_text.h"

namespace tandem {

// Says the call from when it is one, and keeps the text until then. Members other than the two are
// passed over; arguments may be called parameters, may come first, and may be JSON text of an
// object or null, which is {}. Brackets are counted, values not judged: what nests deep costs
// nothing, and what breaks JSON inside arguments is the caller's of the tool to see.
class CallObject {
 public:
  enum class Step {
    more,     // the byte is the call's
    done,     // and is its last
    refused,  // the byte is not the call's: is_call() tells whether there is one without it
  };

  // The text that is to be content if there is no call.
  std::string held;

  // The next byte is the first, `{`. `strict`: a member that calls do not have refuses it, where
  // nothing but its members marks a call.
  void start(bool strict);
  // The same behind a name, which stands alone: `{` is the arguments' first byte.
  void start_arguments(std::string name);
  Step push(char c, ParsedText& out);
  bool is_call() const { return is_call_; }

 private:
  enum class State {
    open,         // {
    first_key,    // " or }
    next_key,     // "
    key,          // to its end
    colon,        // :
    value,        // its first byte
    text,         // a string: to its end
    nested,       // an object or list: to its end
    plain,        // a number, true, false or null
    after_value,  // , or }
  };
  enum class Member { name, arguments, other };

  Step read(char c, ParsedText& out);
  Step end_key();
  Step begin_value(char c, ParsedText& out);
  Step end_value(ParsedText& out);
  // A byte of what the state is about; true: its last.
  bool read_text(char c);
  bool read_nested(char c);
  // False: there are too many calls.
  bool begin_call(ParsedText& out);
  void take(char c, ParsedText& out);
  bool take_argument_text(bool plain);

  State state_ = State::open;
  Member member_ = Member::other;
  bool strict_ = false;
  bool bare_ = false;      // arguments alone
  bool escaped_ = false;   // the byte before was a backslash
  bool in_text_ = false;   // of what nests
  std::size_t depth_ = 0;  // of what nests
  std::string value_;      // of a key, or of the member that is read
  std::string name_;
  std::string arguments_;  // what came before the name
  bool has_arguments_ = false;
  bool is_call_ = false;
};

}  // namespace tandem
