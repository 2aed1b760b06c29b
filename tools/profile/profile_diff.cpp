#include "tools/profile/profile_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tools/profile/fit/cost_text.h"

namespace tandem {
namespace {

struct Compared {
  double value = 0;
  double spread = 0;  // in the value's unit
};

Compared compared(const Profile& profile, std::string_view key, double cost) {
  const FigureSpread* figure = profile.figure(key);
  if (figure == nullptr) return {cost, 0};
  return {figure->value, figure->spread * std::abs(figure->value)};
}

}  // namespace

ProfileDiff diff_profiles(const Profile& before, const Profile& after) {
  ProfileDiff diff;
  const Status same = check_profile(before, after.machine, after.model);
  if (!same)
    diff.text += "not of the same machine and model: figures differ for that reason too\n\n";
  diff.text += fmt::format("  {:<54}{:>16}{:>16}{:>9}\n", "", before.date.substr(0, 10),
                           after.date.substr(0, 10), "change");
  const auto add = [&](const std::string& label, const Compared& old_one, const Compared& new_one,
                       const auto& text_of) {
    const double change = old_one.value == new_one.value ? 0
                          : old_one.value == 0           ? 1
                                                         : new_one.value / old_one.value - 1;
    const bool within = std::abs(new_one.value - old_one.value) <= old_one.spread + new_one.spread;
    if (!within) diff.largest_change = std::max(diff.largest_change, std::abs(change));
    diff.text += fmt::format("  {:<54}{:>16}{:>16}{:>+8.1f}%{}\n", label, text_of(old_one.value),
                             text_of(new_one.value), change * 100,
                             within && change != 0 ? "  within the spread" : "");
  };
  for (const CostField& field : cost_fields()) {
    add(label_of(field), compared(before, field.key, before.costs.*field.member),
        compared(after, field.key, after.costs.*field.member),
        [&](double value) { return cost_text(field, value); });
  }
  add("tokens per core", compared(before, kTokensPerCore, before.costs.tokens_per_core),
      compared(after, kTokensPerCore, after.costs.tokens_per_core),
      [](double value) { return fmt::format("{:.0f}", value); });
  return diff;
}

}  // namespace tandem
