// Rules that lead to each other, and their text in XGrammar's EBNF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/constraint/schema/text_expression.h"

namespace tandem {

class GrammarRules {
 public:
  // A rule's number; it says nothing until it is defined. The first is the root.
  std::int32_t add();
  void define(std::int32_t rule, TextExpression says);
  // More take too long: whoever adds them stops.
  bool has_too_many() const { return rules_.size() > kMostRules; }
  static constexpr std::size_t kMostRules = 20'000;

  // Rules and alternatives that no text ends are left out: those that lead to themselves on and on,
  // say. invalid_argument: no text at all is left, or the grammar has more than `most_bytes`.
  Result<std::string> write(std::size_t most_bytes) const;

 private:
  std::vector<TextExpression> rules_;
};

}  // namespace tandem
