// A walk over a pattern, or over a grammar's text, as the checks before its compiler need it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/status.h"

namespace tandem {

// Calls `on_escape(rest, in_class)` where `rest` begins with an escape, wherever that stands but in
// a grammar's comment, and `on_character(rest)` for what stands outside of classes and, of a
// grammar, outside of literals and comments. Ends with the first Status that is no success.
template <typename OnEscape, typename OnCharacter>
Status scan_pattern(std::string_view text, bool grammar, OnEscape&& on_escape,
                    OnCharacter&& on_character) {
  char inside = 0;  // '[' or '"': what we are in
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    const char c = rest[0];
    if (c == '\\') {
      if (rest.size() > 1) TANDEM_TRY(on_escape(rest, inside == '['));
      ++i;
    } else if (inside != 0) {
      if (c == (inside == '[' ? ']' : inside)) inside = 0;
    } else if (c == '[' || (grammar && c == '"')) {
      inside = c;
    } else if (grammar && c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else {
      TANDEM_TRY(on_character(rest));
    }
  }
  return {};
}

}  // namespace tandem
