// The members of an object as rules: named ones in order, some of them required, then others, all
// told between a least and a most number.
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
  // `others` never: there are none. `length.least` counts others once at most.
  MemberRules(std::vector<ObjectMember> members, TextExpression others, TextExpression separator,
              const Lengths& length, GrammarRules& rules);

  // What stands between the braces.
  TextExpression write();

 private:
  // The next member, and how many have come: as far as that makes a difference.
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
  std::int64_t counted_;       // more are as many as this
  GrammarRules* rules_;
  std::map<Progress, std::int32_t> known_;
  std::deque<Progress> to_do_;
};

}  // namespace tandem
