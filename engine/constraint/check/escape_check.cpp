#include "engine/constraint/check/escape_check.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/constraint/check/pattern_scan.h"

namespace tandem {
namespace {

constexpr std::uint32_t kLastCharacter = 0x10FFFF;

std::optional<std::uint32_t> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint32_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<std::uint32_t>(c - 'A' + 10);
  return std::nullopt;
}

// The number of hex digits at the start of `text`, and their value, capped.
struct Digits {
  std::size_t count = 0;
  std::uint32_t value = 0;

  Digits(std::string_view text, std::size_t most) {
    while (count < std::min(most, text.size())) {
      const auto digit = hex_digit(text[count]);
      if (!digit) break;
      value = std::min(value * 16 + *digit, kLastCharacter + 1);
      ++count;
    }
  }
};

// A character given by its number: \xHH, \uHHHH, \u{H...}, \UHHHHHHHH.
struct Escape {
  std::size_t length = 2;
  std::optional<std::uint32_t> character;  // unset: not such an escape, or an invalid one
};

Escape escape_of(std::string_view text) {
  const std::string_view rest = text.substr(2);
  if (text[1] == 'u' && rest.starts_with('{')) {
    const Digits digits(rest.substr(1), rest.size());
    const bool closed = rest.substr(1 + digits.count).starts_with('}');
    return {3 + digits.count + (closed ? 1 : 0), digits.value};
  }
  const std::size_t most = text[1] == 'x' ? 2 : text[1] == 'u' ? 4 : text[1] == 'U' ? 8 : 0;
  const Digits digits(rest, most);
  if (digits.count == 0) return {};
  return {2 + digits.count, digits.value};
}

Status check_escape(std::string_view what, std::string_view text) {
  const auto c = static_cast<unsigned char>(text[1]);
  if (c < 0x20 || c >= 0x7f) {
    return invalid("{} has '\\' before a character that needs none", what);
  }
  const Escape escape = escape_of(text);
  const std::string_view written = text.substr(0, escape.length);
  const std::string_view next = text.substr(escape.length);
  const bool hex_follows = !next.empty() && hex_digit(next[0]).has_value();
  if (!escape.character) return {};
  if (*escape.character > kLastCharacter) {
    return invalid("{} has '{}', which is no character", what, written);
  }
  if (c == 'x' && hex_follows) {
    return invalid("{} has '{}{}': \\x takes two digits, and is read with more; write \\u{:04x}",
                   what, written, next[0], *escape.character);
  }
  return {};
}

}  // namespace

Status check_escapes(std::string_view what, std::string_view text) {
  return scan_pattern(
      text, /*grammar=*/true, [&](std::string_view rest, bool) { return check_escape(what, rest); },
      [](std::string_view) { return Status(); });
}

}  // namespace tandem
