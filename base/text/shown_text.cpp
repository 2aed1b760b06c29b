#include "base/text/shown_text.h"

#include "base/text/utf8.h"

namespace tandem {
namespace {

bool is_shown(char32_t c) {
  if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return false;  // C0, DEL, C1
  // Line and paragraph separators; marks, embeddings and isolates of text direction.
  if (c >= 0x2028 && c <= 0x202E) return false;
  if ((c >= 0x2066 && c <= 0x2069) || c == 0x200E || c == 0x200F || c == 0x061C) return false;
  return c != 0xFFFE && c != 0xFFFF;  // not allowed in XML
}

}  // namespace

std::string shown_text(std::string_view text, std::size_t most_chars) {
  std::string shown;
  std::size_t count = 0;
  for (std::size_t pos = 0; pos < text.size(); ++count) {
    if (count == most_chars) return shown + "...";
    const char32_t c = utf8::next(text, pos);
    utf8::append(shown, is_shown(c) ? c : U'\uFFFD');
  }
  return shown;
}

}  // namespace tandem
