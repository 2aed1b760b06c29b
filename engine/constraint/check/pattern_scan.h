// Iteration over a pattern or a grammar's text, for the checks before compilation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/status.h"

namespace tandem {

// Calls `on_escape(rest, in_class)` at each escape, with `rest` starting there, except in a
// grammar's comments, and `on_character(rest)` at each character outside of classes and, in a
// grammar, outside of literals and comments. Stops at the first Status that is not ok.
template <typename OnEscape, typename OnCharacter>
Status scan_pattern(std::string_view text, bool grammar, OnEscape&& on_escape,
                    OnCharacter&& on_character) {
  char inside = 0;  // '[' or '"': the current construct
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
