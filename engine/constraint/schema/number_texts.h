// Numbers of JSON between bounds, as texts: exactly, by their decimal digits.
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

// A number as it is written, without an exponent.
struct Decimal {
  bool negative = false;  // never of zero
  std::string whole;      // no zero before it; zero: empty
  std::string fraction;   // no zero behind it

  // Nothing of what takes more than some 60 digits.
  static std::optional<Decimal> of(const nlohmann::ordered_json& number);
  bool is_zero() const { return whole.empty() && fraction.empty(); }
  std::string written() const;
};
int compare(const Decimal& a, const Decimal& b);  // < 0, 0, > 0

struct NumberRange {
  std::optional<Decimal> least;
  std::optional<Decimal> most;
  bool above_least = false;  // least itself is out
  bool below_most = false;

  void raise_least(const Decimal& bound, bool above);
  void lower_most(const Decimal& bound, bool below);
  bool contains(const Decimal& number) const;
  bool is_apart_from(const NumberRange& other) const;  // sure
};

// Whether a number is so many times another.
bool is_multiple(const Decimal& number, const Decimal& of);

// The numbers in a range that are multiples of all of `of` (above zero): integers, or any numbers.
// Rules that it takes are added. invalid_argument: more than 15 digits in a bound, or multiples
// that are too many to be told one by one and that no few rules tell.
Result<TextExpression> numbers_in(const NumberRange& range, const std::vector<Decimal>& of,
                                  bool integers, GrammarRules& rules);

}  // namespace tandem
