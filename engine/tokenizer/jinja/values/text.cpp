#include "engine/tokenizer/jinja/values/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <charconv>
#include <cmath>

#include "engine/tokenizer/utf8.h"

namespace tandem::jinja {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}
char32_t upper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
void append(String& out, char32_t c) {
  std::string bytes;  // a few bytes, which need no allocation
  utf8::append(bytes, c);
  out += bytes;
}
void append_upper(String& out, char32_t c) {
  if (c == 0xDF) {
    out += "SS";  // the one common letter whose upper case has two characters
  } else {
    append(out, upper(c));
  }
}
void append_lower(String& out, char32_t c) {
  if (c == 0x130) {
    out += "i\xCC\x87";
  } else {
    append(out, lower(c));
  }
}

template <typename Stop>
std::string_view drop_left(std::string_view s, Stop&& keep) {
  std::size_t pos = 0;
  while (pos < s.size()) {
    spend(1);
    std::size_t after = pos;
    if (keep(utf8::next(s, after))) break;
    pos = after;
  }
  return s.substr(pos);
}

template <typename Stop>
std::string_view drop_right(std::string_view s, Stop&& keep) {
  std::size_t end = s.size();
  while (end > 0) {
    spend(1);
    const std::size_t before = utf8::previous(s, end);
    std::size_t pos = before;
    if (keep(utf8::next(s, pos))) break;
    end = before;
  }
  return s.substr(0, end);
}

bool has(std::string_view chars, char32_t c) {
  spend(chars.size());
  for (std::size_t pos = 0; pos < chars.size();)
    if (utf8::next(chars, pos) == c) return true;
  return false;
}

}  // namespace

bool is_space(char32_t c) {
  return utf8::is_white_space(c) || (c >= 0x1C && c <= 0x1F);
}

std::string_view strip_left(std::string_view s) {
  return drop_left(s, [](char32_t c) { return !is_space(c); });
}
std::string_view strip_right(std::string_view s) {
  return drop_right(s, [](char32_t c) { return !is_space(c); });
}
std::string_view strip_left(std::string_view s, std::string_view chars) {
  return drop_left(s, [&](char32_t c) { return !has(chars, c); });
}
std::string_view strip_right(std::string_view s, std::string_view chars) {
  return drop_right(s, [&](char32_t c) { return !has(chars, c); });
}

String to_upper(std::string_view s) {
  spend(s.size());
  String out;
  for (std::size_t pos = 0; pos < s.size();) append_upper(out, utf8::next(s, pos));
  return out;
}

String to_lower(std::string_view s) {
  spend(s.size());
  String out;
  for (std::size_t pos = 0; pos < s.size();) append_lower(out, utf8::next(s, pos));
  return out;
}

String capitalize(std::string_view s) {
  if (s.empty()) return {};
  std::size_t pos = 0;
  utf8::next(s, pos);
  return to_upper(s.substr(0, pos)) + to_lower(s.substr(pos));
}

String to_title(std::string_view s) {
  spend(s.size());
  String out;
  bool in_word = false;
  for (std::size_t pos = 0; pos < s.size();) {
    const char32_t c = utf8::next(s, pos);
    if (in_word) {
      append_lower(out, c);
    } else {
      append_upper(out, c);
    }
    in_word = is_alpha(c);
  }
  return out;
}

bool is_alpha(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool is_alnum(char32_t c) {
  const auto k = category(c);
  return is_alpha(c) || (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

bool is_printable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}

String float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(end.ptr - buffer));
  const std::size_t e = text.find('e');
  int exponent = 0;
  const std::size_t sign = text[e + 1] == '+' ? 2 : 1;  // from_chars does not accept a plus sign
  std::from_chars(text.data() + e + sign, text.data() + text.size(), exponent);
  if (exponent >= -4 && exponent < 16) {
    const auto fixed =
        std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
    String out(buffer, static_cast<std::size_t>(fixed.ptr - buffer));
    return out.find('.') == String::npos ? out + ".0" : out;
  }
  return String(text);
}

String python_quoted(std::string_view s) {
  spend(s.size());
  const bool has_single = s.find('\'') != std::string_view::npos;
  const char quote = has_single && s.find('"') == std::string_view::npos ? '"' : '\'';
  String out(1, quote);
  for (std::size_t pos = 0; pos < s.size();) {
    const char32_t c = utf8::next(s, pos);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += {'\\', static_cast<char>(c)};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      append(out, c);
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<unsigned>(c));
    }
  }
  return out + quote;
}

String json_quoted(std::string_view s, bool ascii) {
  spend(s.size());
  String out = "\"";
  for (std::size_t pos = 0; pos < s.size();) {
    const char32_t c = utf8::next(s, pos);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000)) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else if (ascii && c >= 0x10000) {
          const auto v = static_cast<unsigned>(c) - 0x10000;
          out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (v >> 10), 0xDC00 + (v & 0x3FF));
        } else {
          append(out, c);
        }
    }
  }
  return out + '"';
}

}  // namespace tandem::jinja
