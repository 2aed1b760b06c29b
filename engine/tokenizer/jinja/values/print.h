// Conversion of values to text. Each visit of a value is charged as a step, and each byte written.
#pragma once

#include <string_view>

#include "engine/tokenizer/jinja/values/value.h"

namespace tandem::jinja {

// Like Python's str() and repr(); throw Error for values that cannot be printed.
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
