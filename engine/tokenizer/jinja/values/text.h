// Python's string functions, which work on characters, not bytes. All charge the budget for the
// data that they read and write.
#pragma once

#include <cstdint>
#include <string_view>
#include "engine/tokenizer/jinja/values/budget.h"

namespace tandem::jinja {

bool is_space(char32_t c);  // Python's str.isspace
std::string_view strip_left(std::string_view s);
std::string_view strip_right(std::string_view s);
// Strips the characters of `chars` from its ends.
std::string_view strip_left(std::string_view s, std::string_view chars);
std::string_view strip_right(std::string_view s, std::string_view chars);

String to_upper(std::string_view s);
String to_lower(std::string_view s);
String capitalize(std::string_view s);
// str.title: upper case for a letter that does not follow a letter, lower case for the others.
String to_title(std::string_view s);

bool is_alpha(char32_t c);
bool is_alnum(char32_t c);
bool is_printable(char32_t c);

// Python's format of a float: the shortest digits that read back the same, and at least one
// decimal.
String float_text(double value);
// Returns a Python string literal.
String python_quoted(std::string_view s);
// Returns a JSON string; non-ASCII characters are escaped only if `ascii`.
String json_quoted(std::string_view s, bool ascii);

}  // namespace tandem::jinja
