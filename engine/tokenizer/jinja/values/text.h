// Python's view of strings, which templates rely on: characters, not bytes. All pay for what they
// read and make.
#pragma once

#include <cstdint>
#include <string_view>
#include "engine/tokenizer/jinja/values/budget.h"

namespace tandem::jinja {

bool is_space(char32_t c);  // Python's str.isspace
std::string_view strip_left(std::string_view s);
std::string_view strip_right(std::string_view s);
// Without the characters of `chars` at its ends.
std::string_view strip_left(std::string_view s, std::string_view chars);
std::string_view strip_right(std::string_view s, std::string_view chars);

String to_upper(std::string_view s);
String to_lower(std::string_view s);
String capitalize(std::string_view s);
// Upper case for a letter that follows no letter, lower case for others (str.title).
String to_title(std::string_view s);

bool is_alpha(char32_t c);
bool is_alnum(char32_t c);
bool is_printable(char32_t c);

// How Python writes a float: the shortest digits that read back the same, and at least one decimal.
String float_text(double value);
// A Python string literal.
String python_quoted(std::string_view s);
// A JSON string; non-ASCII characters as they are unless `ascii`.
String json_quoted(std::string_view s, bool ascii);

}  // namespace tandem::jinja
