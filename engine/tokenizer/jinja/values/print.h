// Values as text. Each value visited is a step, each byte made is paid for.
#pragma once

#include <string_view>

#include "engine/tokenizer/jinja/values/value.h"

namespace tandem::jinja {

// As Python's str() and repr(); throw Error for what cannot be printed.
String str(const Value& v);
String repr(const Value& v);

struct JsonStyle {
  int indent = -1;  // -1: on one line
  bool ascii = false;
  bool sort_keys = false;
  String item_separator = ", ", key_separator = ": ";
};
String to_json(const Value& value, const JsonStyle& style);

}  // namespace tandem::jinja
