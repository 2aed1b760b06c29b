// Formats a line of the log as text or as JSON. Pure: uses no clock and no file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace tandem::log {

// A named value of a line, besides its message. Names are fixed lower-case words, other than time,
// level, module and message, which each JSON line has.
struct Field {
  std::string_view name;
  std::variant<std::string_view, std::int64_t, double> value;
};

// "message name=value ...". Control characters are escaped, so that foreign text cannot start a
// line; an empty value is "-", and one with blanks, quotes or anything but printable ASCII is
// quoted as in JSON.
std::string text_line(std::string_view message, std::span<const Field> fields);

// `"module":...,"message":...,NAME:VALUE...`: members of an object, in valid UTF-8.
std::string json_members(std::string_view module, std::string_view message,
                         std::span<const Field> fields);

}  // namespace tandem::log
