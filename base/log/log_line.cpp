#include "base/log/log_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/text/json_string.h"

namespace tandem::log {
namespace {

bool is_control(char c) {
  return (c >= 0 && c < ' ') || c == 127;
}

bool is_plain(std::string_view value) {
  return std::ranges::all_of(value, [](char c) { return c > ' ' && c < 127 && c != '"'; });
}

void append_visible(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (is_control(c)) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
}

void append_text(std::string& out, std::string_view value) {
  if (value.empty()) {
    out += '-';
  } else if (is_plain(value)) {
    out += value;
  } else {
    append_json_string(out, value);
  }
}

}  // namespace

std::string text_line(std::string_view message, std::span<const Field> fields) {
  std::string line;
  append_visible(line, message);
  for (const Field& field : fields) {
    line += ' ';
    line += field.name;
    line += '=';
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
      append_text(line, *text);
    } else if (const auto* whole = std::get_if<std::int64_t>(&field.value)) {
      fmt::format_to(std::back_inserter(line), "{}", *whole);
    } else {
      fmt::format_to(std::back_inserter(line), "{:.4f}", std::get<double>(field.value));
    }
  }
  return line;
}

std::string json_members(std::string_view module, std::string_view message,
                         std::span<const Field> fields) {
  std::string members = "\"module\":";
  append_json_string(members, module);
  members += ",\"message\":";
  append_json_string(members, message);
  for (const Field& field : fields) {
    members += ',';
    append_json_string(members, field.name);
    members += ':';
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
      append_json_string(members, *text);
    } else if (const auto* whole = std::get_if<std::int64_t>(&field.value)) {
      fmt::format_to(std::back_inserter(members), "{}", *whole);
    } else if (const double number = std::get<double>(field.value); std::isfinite(number)) {
      fmt::format_to(std::back_inserter(members), "{:.6f}", number);
    } else {
      members += "null";
    }
  }
  return members;
}

}  // namespace tandem::log
