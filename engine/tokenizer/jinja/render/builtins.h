// Functions shared by filters, methods and operators.
#pragma once

#include <string>
#include <string_view>

#include "engine/tokenizer/jinja/render/interpreter.h"
#include "engine/tokenizer/jinja/syntax/ast.h"
#include "engine/tokenizer/jinja/values/value.h"

namespace tandem::jinja {

// str.replace; a negative count replaces all.
String replace_text(std::string_view text, std::string_view from, std::string_view to,
                    std::int64_t count);

// Returns a dict as a list of (key, value) tuples.
Value items_of(const Value& dict);

// str.format: {}, {0}, {name.member[0]!r:>8.2f}.
String format_braces(std::string_view format, ArgReader& args);
// printf-style formatting of Python's % operator: "%s %-8.2f %(name)s".
String format_percent(std::string_view format, const Value& values);
// Pads a text with fill characters to a width of `width` characters. `side` is the text's
// alignment: '<', '>' or '^'.
String padded(std::string_view text, std::int64_t width, char side, std::string_view fill = " ");

// str.center, which rounds odd padding differently from a format's '^'.
String centered(std::string_view text, std::int64_t width, std::string_view fill = " ");

// int(d); throws Error if it does not fit.
std::int64_t truncated(double d);

bool is_digit(char32_t c);  // str.isdigit

// The built-in filters and tests (Builtins); null for unknown names.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

// Adds the functions that every template can use: range, namespace, dict, cycler, joiner,
// raise_exception, strftime_now.
void add_globals(Interpreter& interpreter);

}  // namespace tandem::jinja
