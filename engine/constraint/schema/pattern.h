// Regular expressions, read as ECMA 262 and Python's re both read them: where the two differ, what
// both allow. What a grammar cannot follow is refused by name: lookaround, backreferences, word
// boundaries, classes of Unicode, flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/constraint/schema/text_expression.h"

namespace tandem {

// With ^ and $ where they stand. invalid_argument begins with `what`: "the pattern", say.
Result<TextExpression> parse_pattern(std::string_view what, std::string_view pattern);

// The texts that a pattern matches from the first character to the last, and those that it is found
// in. invalid_argument: ^ or $ stands where it cannot be followed.
Result<TextExpression> texts_matched(std::string_view what, const TextExpression& pattern);
Result<TextExpression> texts_searched(std::string_view what, const TextExpression& pattern);

// What follows is of expressions without rules, ^ and $.

struct Lengths {
  std::int64_t least = 0;
  std::int64_t most = -1;  // -1: without end

  bool lie_within(const Lengths& other) const {
    return least >= other.least && (other.most < 0 || (most >= 0 && most <= other.most));
  }
};
// In characters.
Lengths lengths_of(const TextExpression& each);

// The texts of such lengths; nothing where that would take too many alternatives.
std::optional<TextExpression> with_lengths(const TextExpression& each, const Lengths& lengths);

// False too where it takes too long to tell.
bool is_text_of(const TextExpression& each, std::u32string_view text);

}  // namespace tandem
