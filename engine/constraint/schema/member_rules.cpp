#include "engine/constraint/schema/member_rules.h"

#include <algorithm>

namespace tandem {

MemberRules::MemberRules(std::vector<ObjectMember> members, TextExpression others,
                         TextExpression separator, const Lengths& length, GrammarRules& rules)
    : members_(std::move(members)),
      others_(std::move(others)),
      separator_(std::move(separator)),
      least_(length.least),
      most_(length.most),
      rules_(&rules) {
  std::int64_t required = 0;
  for (const ObjectMember& member : members_) required += member.required ? 1 : 0;
  const bool has_others = others_.kind != TextExpression::Kind::never;
  // Bounds that always hold need not be counted.
  if (least_ <= required) least_ = 0;
  if (!has_others && most_ >= static_cast<std::int64_t>(members_.size())) most_ = -1;
  counted_ = most_ >= 0 ? std::max<std::int64_t>(most_, 1) : std::max<std::int64_t>(least_, 1);
}

MemberRules::Progress MemberRules::after(const Progress& at) const {
  return {at.first + 1, std::min(at.second + 1, counted_)};
}

TextExpression MemberRules::one_more(const TextExpression& member, std::int64_t count) const {
  return count == 0 ? member : in_sequence({separator_, member});
}

TextExpression MemberRules::others_after(std::int64_t count) const {
  const std::int64_t least = std::max<std::int64_t>(least_ - count, 0);
  const std::int64_t most = most_ < 0 ? -1 : most_ - count;
  if (most == 0 || others_.kind == TextExpression::Kind::never) {
    return least == 0 ? TextExpression() : no_text();
  }
  const TextExpression more = in_sequence({separator_, others_});
  if (count > 0) return repeated(more, least, most);
  TextExpression all = in_sequence(
      {others_, repeated(more, std::max<std::int64_t>(least - 1, 0), most < 0 ? -1 : most - 1)});
  return least == 0 ? maybe(std::move(all)) : all;
}

TextExpression MemberRules::rest_by_rule(const Progress& at) {
  auto [found, is_new] = known_.try_emplace(at, -1);
  if (is_new) {
    found->second = rules_->add();
    to_do_.push_back(at);
  }
  return by_rule(found->second);
}

// Writes members up to the first whose omission changes what may follow; that one begins a rule of
// its own.
TextExpression MemberRules::rest(Progress at) {
  std::vector<TextExpression> parts;
  while (at.first < members_.size()) {
    const ObjectMember& member = members_[at.first];
    if (!may_come(at.second)) {
      if (member.required) return no_text();
      ++at.first;
    } else if (member.required) {
      parts.push_back(one_more(member.text, at.second));
      at = after(at);
    } else if (at.second == counted_ && most_ < 0) {
      parts.push_back(maybe(one_more(member.text, at.second)));
      ++at.first;
    } else {
      parts.push_back(rest_by_rule(at));
      return in_sequence(std::move(parts));
    }
  }
  parts.push_back(others_after(at.second));
  return in_sequence(std::move(parts));
}

TextExpression MemberRules::write() {
  TextExpression result = rest({0, 0});
  while (!to_do_.empty() && !rules_->has_too_many()) {
    const Progress at = to_do_.front();
    to_do_.pop_front();
    TextExpression with_it =
        in_sequence({one_more(members_[at.first].text, at.second), rest(after(at))});
    rules_->define(known_.at(at), any_of({std::move(with_it), rest({at.first + 1, at.second})}));
  }
  return result;
}

}  // namespace tandem
