#include "tools/profile/fit/profile_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "base/check.h"
#include "tools/profile/fit/cost_text.h"
#include "tools/profile/fit/profile_fit.h"
#include "tools/profile/fit/rounds.h"

namespace tandem {
namespace {

constexpr std::size_t kDraws = 40;  // at each end, one of them may be outside
constexpr double kWorthless = 1;    // the minimum spread of a figure that is doubtful

PassTables merge_passes(const std::vector<const PassTables*>& passes) {
  PassTables merged = *passes.front();
  std::vector<double> values(passes.size());
  for (std::size_t t = 0; t < merged.size(); ++t) {
    for (std::size_t r = 0; r < merged[t].rows.size(); ++r) {
      for (std::size_t c = 0; c < merged[t].columns.size(); ++c) {
        for (std::size_t p = 0; p < passes.size(); ++p) {
          TANDEM_CHECK(passes[p]->size() == merged.size() &&
                           (*passes[p])[t].rows.size() == merged[t].rows.size(),
                       "passes over other cases");
          values[p] = (*passes[p])[t].rows[r][c];
        }
        merged[t].rows[r][c] = median_of(values);
      }
    }
  }
  return merged;
}

// The values of each figure over all draws, by its name.
std::map<std::string, std::vector<double>> draw_figures(const std::vector<PassTables>& passes,
                                                        const ProfileModel& model) {
  std::map<std::string, std::vector<double>> drawn;
  std::mt19937_64 random(1);  // a fixed seed, so that the same passes give the same result
  std::vector<const PassTables*> chosen(passes.size());
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    for (const PassTables*& pass : chosen) pass = &passes[random() % passes.size()];
    Profile profile;
    profile.model = model;
    profile.tables = merge_passes(chosen);
    if (!fit_profile(profile)) continue;  // if all draws fail, so does the fit of all passes
    for (const FigureSpread& figure : profile.figures) {
      drawn[figure.name].push_back(figure.value);
    }
  }
  return drawn;
}

struct Interval {
  double low = 0, high = 0;
};

Interval interval_of(double value, std::vector<double> drawn, double least_spread) {
  drawn.push_back(value);
  std::ranges::sort(drawn);
  const std::size_t out = drawn.size() / kDraws;
  return {std::min(std::max(0.0, value * (1 - least_spread)), drawn[out]),
          std::max(value * (1 + least_spread), drawn[drawn.size() - 1 - out])};
}

// The spread caused by others. Work that is held up for a share of the time takes 1 / (1 - share)
// as long; the factor of 1.5 accounts for two threads that wait for each other, each of which can
// be held up. Shares below a twentieth affect only some passes, whose spread shows it.
double spread_by(double others) {
  constexpr double kHalfAsMuchAgain = 1.5;
  constexpr double kShown = 0.05;
  constexpr double kMost = 0.9;  // a larger share leaves no information
  const double share = std::min(others, kMost);
  return kHalfAsMuchAgain * std::max(0.0, share - kShown) / (1 - share);
}

// Chooses the cost of an uncertain figure and adds the explanation.
template <typename Text>
double settle(FigureSpread& figure, const Interval& interval, double built_in, std::size_t passes,
              const Text& text_of) {
  if (!figure.certain) {
    figure.why += fmt::format("; the built-in {} stays", text_of(built_in));
    return built_in;
  }
  figure.certain = false;
  const double taken = std::clamp(built_in, interval.low, interval.high);
  figure.why = fmt::format("{} passes say {} to {}; ", passes, text_of(interval.low),
                           text_of(interval.high));
  figure.why += taken == built_in
                    ? fmt::format("the built-in {} stays", text_of(built_in))
                    : fmt::format("{} is planned with, the end nearest to the built-in {}",
                                  text_of(taken), text_of(built_in));
  return taken;
}

}  // namespace

Result<std::vector<std::string>> judge_passes(const std::vector<PassTables>& passes, double others,
                                              Profile& profile) {
  TANDEM_CHECK(!passes.empty(), "a profile of no passes");
  std::vector<const PassTables*> all;
  all.reserve(passes.size());
  for (const PassTables& pass : passes) all.push_back(&pass);
  profile.tables = merge_passes(all);
  TANDEM_ASSIGN(std::vector<std::string> notes, fit_profile(profile));
  std::map<std::string, std::vector<double>> drawn = draw_figures(passes, profile.model);
  const CostModel built_in;
  const double least_spread = spread_by(others);
  for (FigureSpread& figure : profile.figures) {
    const Interval interval =
        interval_of(figure.value, std::move(drawn[figure.name]), least_spread);
    figure.spread = MedianInterval{figure.value, interval.low, interval.high}.spread();
    if (!figure.certain) figure.spread = std::max(figure.spread, kWorthless);
    if (figure.spread <= kCertainSpread) continue;
    if (figure.name == kTokensPerCore) {
      profile.costs.tokens_per_core = static_cast<std::int32_t>(
          settle(figure, interval, built_in.tokens_per_core, passes.size(),
                 [](double value) { return fmt::format("{:.0f}", value); }));
    }
    for (const CostField& field : cost_fields()) {
      if (figure.name != field.key) continue;
      profile.costs.*field.member = settle(figure, interval, built_in.*field.member, passes.size(),
                                           [&](double value) { return cost_text(field, value); });
    }
  }
  return notes;
}

double widest_spread(const Profile& profile) {
  double widest = 0;
  for (const FigureSpread& figure : profile.figures) widest = std::max(widest, figure.spread);
  return widest;
}

}  // namespace tandem
