// A set of rules that refer to each other, and their text in XGrammar's EBNF.
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
  // Returns the number of a new rule, which must be defined later. The first rule is the root.
  std::int32_t add();
  void define(std::int32_t rule, TextExpression says);
  // More rules take too long to compile; callers stop adding then.
  bool has_too_many() const { return rules_.size() > kMostRules; }
  static constexpr std::size_t kMostRules = 20'000;

  // Leaves out rules and alternatives that derive no finite text, for example those that only refer
  // to themselves. invalid_argument: no text is left, or the grammar has more than `most_bytes`.
  Result<std::string> write(std::size_t most_bytes) const;

 private:
  std::vector<TextExpression> rules_;
};

}  // namespace tandem
