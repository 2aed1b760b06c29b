#include "base/text/json_string.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "base/text/utf8.h"

namespace tandem {

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = utf8::next(text, pos);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c < 0x20 || c == 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      utf8::append(out, c);
    }
  }
  out += '"';
}

void append_json_number(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
  } else {
    fmt::format_to(std::back_inserter(out), "{}", number);
  }
}

}  // namespace tandem
