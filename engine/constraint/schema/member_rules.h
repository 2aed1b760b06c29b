// Rules for the members of an object: named ones in order, some of them required, then others; the
// total number is between two bounds.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "engine/constraint/schema/grammar_rules.h"
#include "engine/constraint/schema/pattern.h"
#include "engine/constraint/schema/text_expression.h"

namespace tandem {

struct ObjectMember {
  TextExpression text;  // name and value
  bool required = false;
};

class MemberRules {
 public:
  // If `others` is `never`, there are no others. `length.least` may count at most one of them.
  MemberRules(std::vector<ObjectMember> members, TextExpression others, TextExpression separator,
              const Lengths& length, GrammarRules& rules);

  // Returns the text between the braces.
  TextExpression write();

 private:
  // The index of the next member, and the number of members so far, as far as it matters.
  using Progress = std::pair<std::size_t, std::int64_t>;

  TextExpression rest(Progress at);
  TextExpression rest_by_rule(const Progress& at);
  TextExpression others_after(std::int64_t count) const;
  TextExpression one_more(const TextExpression& member, std::int64_t count) const;
  Progress after(const Progress& at) const;
  bool may_come(std::int64_t count) const { return most_ < 0 || count < most_; }

  std::vector<ObjectMember> members_;
  TextExpression others_, separator_;
  std::int64_t least_, most_;  // -1: any number
  std::int64_t counted_;       // higher counts are equivalent to this
  GrammarRules* rules_;
  std::map<Progress, std::int32_t> known_;
  std::deque<Progress> to_do_;
};

}  // namespace tandem
