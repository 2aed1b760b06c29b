// Regular expressions in the common subset of ECMA 262 and Python's re: where the two differ, only
// texts that both allow are generated. Constructs that a grammar cannot express are refused by
// name: lookaround, backreferences, word boundaries, Unicode classes, flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/constraint/schema/text_expression.h"

namespace tandem {

// Keeps ^ and $ as nodes of the expression. Messages of invalid_argument begin with `what`, for
// example "the pattern".
Result<TextExpression> parse_pattern(std::string_view what, std::string_view pattern);

// Returns the texts that the whole pattern matches, and those that contain a match.
// invalid_argument: ^ or $ is at a place where it cannot be expressed.
Result<TextExpression> texts_matched(std::string_view what, const TextExpression& pattern);
Result<TextExpression> texts_searched(std::string_view what, const TextExpression& pattern);

// The functions below take expressions without rules, ^ and $.

struct Lengths {
  std::int64_t least = 0;
  std::int64_t most = -1;  // -1: unlimited

  bool lie_within(const Lengths& other) const {
    return least >= other.least && (other.most < 0 || (most >= 0 && most <= other.most));
  }
};
// Returns lengths in characters.
Lengths lengths_of(const TextExpression& each);

// Restricts the texts to such lengths; nothing if that takes too many alternatives.
std::optional<TextExpression> with_lengths(const TextExpression& each, const Lengths& lengths);

// Also false if the check takes too long.
bool is_text_of(const TextExpression& each, std::u32string_view text);

}  // namespace tandem
