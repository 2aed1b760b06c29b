// What filters, methods and operators share.
#pragma once

#include <string>

#include "engine/tokenizer/jinja/interpreter.h"
#include "engine/tokenizer/jinja/value.h"

namespace tandem::jinja {

// str.replace; count < 0: all.
std::string replace_text(Interpreter& in, const std::string& text, const std::string& from,
                         const std::string& to, std::int64_t count);

// A dict as a list of (key, value) tuples.
Value items_of(Interpreter& in, const Value& dict);

// str.format with {}, {0} and {name}; format specifications are refused.
std::string format_braces(const std::string& format, ArgReader& args);

// int(d); throws Error if it does not fit.
std::int64_t truncated(double d);

bool is_digit(char32_t c);  // str.isdigit

// The functions every template sees: range, namespace, dict, raise_exception, strftime_now.
void add_globals(Interpreter& interpreter);

// What raise_exception throws: a refusal that the template's author wrote for its users.
class Raised : public Error {
 public:
  using Error::Error;
};

}  // namespace tandem::jinja
