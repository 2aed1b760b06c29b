// The texts of JSON numbers between bounds, computed exactly on their decimal digits.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/constraint/schema/grammar_rules.h"
#include "engine/constraint/schema/text_expression.h"

namespace tandem {

// A number in decimal notation without an exponent.
struct Decimal {
  bool negative = false;  // false for zero
  std::string whole;      // without leading zeros; empty for zero
  std::string fraction;   // without trailing zeros

  // Nothing for numbers of more than some 60 digits.
  static std::optional<Decimal> of(const nlohmann::ordered_json& number);
  bool is_zero() const { return whole.empty() && fraction.empty(); }
  std::string written() const;
};
int compare(const Decimal& a, const Decimal& b);  // returns < 0, 0 or > 0

struct NumberRange {
  std::optional<Decimal> least;
  std::optional<Decimal> most;
  bool above_least = false;  // excludes `least` itself
  bool below_most = false;

  void raise_least(const Decimal& bound, bool above);
  void lower_most(const Decimal& bound, bool below);
  bool contains(const Decimal& number) const;
  bool is_apart_from(const NumberRange& other) const;  // false if uncertain
};

// Whether `number` is an integer multiple of `of`.
bool is_multiple(const Decimal& number, const Decimal& of);

// Returns the numbers in a range that are multiples of all of `of` (positive): integers, or any
// numbers. Adds the rules that it needs. invalid_argument: a bound has more than 15 digits, or the
// multiples are too many for a list and not expressible by a few rules.
Result<TextExpression> numbers_in(const NumberRange& range, const std::vector<Decimal>& of,
                                  bool integers, GrammarRules& rules);

}  // namespace tandem
