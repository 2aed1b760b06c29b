// What a line of the log says, as text or as JSON. Pure: no clock, no file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace tandem::log {

// A named value beside a line's message. The names are ours: lower-case words, and neither of
// time, level, module and message, which each line of JSON has.
struct Field {
  std::string_view name;
  std::variant<std::string_view, std::int64_t, double> value;
};

// "message name=value ...". Control characters are escaped, so that nobody's text begins a line;
// a value that is empty is "-", one with other characters than printable ASCII or with blanks or
// quotes is in quotes, as in JSON.
std::string text_line(std::string_view message, std::span<const Field> fields);

// `"module":...,"message":...,NAME:VALUE...`: the members of an object, valid UTF-8.
std::string json_members(std::string_view module, std::string_view message,
                         std::span<const Field> fields);

}  // namespace tandem::log
