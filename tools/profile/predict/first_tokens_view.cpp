#include "tools/profile/predict/first_tokens_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/profile/predict/first_tokens.h"

namespace tandem {
namespace {

constexpr std::int32_t kSmallRank = 16;  // the second plotted rank
constexpr std::int32_t kBurst = 8;
constexpr std::int32_t kPrompt = 64;

struct PlottedCase {
  std::int32_t rank, cold;
};
constexpr PlottedCase kPlotted[] = {{kBudgetRank, 1}, {kSmallRank, 1}, {kBudgetRank, kBurst}};

std::string none_text() {
  return "CPU workers: none were measured, so cores are not weighed; `tandem profile --workers N` "
         "measures with N.";
}

CoreCurve budget_of(const Profile& profile, std::int32_t cold) {
  PlanQuestion question;
  question.tokens = kPrompt;
  question.rank = kBudgetRank;
  question.cold = cold;
  return core_curve(profile, question);
}

std::vector<std::string> words_of(const Profile& profile) {
  return {budget_words(budget_of(profile, 1)), budget_words(budget_of(profile, kBurst))};
}

std::string case_text(const PlottedCase& which) {
  return which.cold == 1
             ? fmt::format("one cold adapter of rank {}", which.rank)
             : fmt::format("{} cold adapters of rank {} at once", which.cold, which.rank);
}

// The cores shown in a table: powers of two for which there are curves, none and all.
std::vector<std::int32_t> shown_cores(std::int32_t workers) {
  std::vector<std::int32_t> cores = {0};
  for (std::int32_t count = 1; count < std::min(workers, 64); count *= 2) cores.push_back(count);
  cores.push_back(workers);
  return cores;
}

std::string error_text(double share) {
  return fmt::format("{:+.1f} %", share * 100);
}

double largest_error(const std::vector<FirstToken>& tokens) {
  double largest = 0;
  for (const FirstToken& token : tokens) largest = std::max(largest, std::abs(token.error()));
  return largest;
}

std::string curves_text(const std::vector<CoreCurve>& curves,
                        const std::vector<std::int32_t>& cores) {
  std::string text;
  for (const CoreCurve& curve : curves) {
    text += fmt::format("  {:>4}  {:>6}", curve.question.rank, curve.question.tokens);
    for (const std::int32_t count : cores) {
      text += fmt::format("{:>9.2f}", curve.seconds_of(count) * 1e3);
    }
    text += fmt::format("{:>9}\n", curve.cores[curve.knee]);
  }
  return text;
}

std::string measured_text(const std::vector<FirstToken>& tokens) {
  std::string text =
      "\nfirst tokens of one cold adapter, as measured and as predicted, and once it is resident\n"
      " cores  rank  tokens    measured   predicted      off    resident\n";
  for (const FirstToken& token : tokens) {
    text += fmt::format("{:>6}{:>6}{:>8}{:>9.2f} ms{:>9.2f} ms{:>9}{:>9.2f} ms\n", token.workers,
                        token.rank, token.rows, token.seconds * 1e3, token.predicted_s * 1e3,
                        error_text(token.error()), token.resident_s * 1e3);
  }
  return text;
}

// A plot of the curves by rows, with the knee of each and the measured points of one adapter of
// this rank.
Plot cores_plot(const Profile& profile, const PlottedCase& which) {
  constexpr double kWide = 20;
  const std::vector<CoreCurve> curves = core_curves(profile, which.rank, which.cold);
  Plot plot;
  plot.title = fmt::format("First token, {}", case_text(which));
  plot.x_label = "cores for CPU workers";
  plot.y_label = "ms";
  double low = curves.front().seconds.front();
  double high = low;
  PlotSeries knees{"more cores stop paying", {}, PlotSeries::Mark::dots};
  for (const CoreCurve& curve : curves) {
    PlotSeries series{fmt::format("{} tokens", curve.question.tokens), {}, PlotSeries::Mark::line};
    for (std::size_t i = 0; i < curve.cores.size(); ++i) {
      series.points.emplace_back(curve.cores[i], curve.seconds[i] * 1e3);
    }
    knees.points.push_back(series.points[curve.knee]);
    const auto [least, most] = std::ranges::minmax(curve.seconds);
    low = std::min(low, least);
    high = std::max(high, most);
    plot.series.push_back(std::move(series));
  }
  plot.log_y = high > kWide * low;
  plot.y_from_zero = true;
  plot.series.push_back(std::move(knees));
  PlotSeries measured{"measured", {}, PlotSeries::Mark::dots};
  for (const FirstToken& token : measured_first_tokens(profile)) {
    if (which.cold != 1 || token.rank != which.rank) continue;
    measured.points.emplace_back(token.workers, token.seconds * 1e3);
  }
  if (!measured.points.empty()) plot.series.push_back(std::move(measured));
  return plot;
}

}  // namespace

std::string first_tokens_text(const Profile& profile) {
  if (profile.workers <= 0) return none_text() + "\n";
  std::string text;
  for (const std::string& words : words_of(profile)) text += words + "\n";
  const std::vector<std::int32_t> cores = shown_cores(profile.workers);
  for (const PlottedCase& which : kPlotted) {
    text += fmt::format(
        "\nms to the first token by cores, {}; fewest: that are within {:.0f} % of the best\n",
        case_text(which), kKneeShare * 100);
    text += "  rank  tokens";
    for (const std::int32_t count : cores) text += fmt::format("{:>9}", count);
    text += fmt::format("{:>9}\n", "fewest");
    text += curves_text(core_curves(profile, which.rank, which.cold), cores);
  }
  const std::vector<FirstToken> measured = measured_first_tokens(profile);
  if (!measured.empty()) text += measured_text(measured);
  return text;
}

std::vector<HtmlFigure> first_token_figures(const Profile& profile) {
  if (profile.workers <= 0) return {};
  const CoreCurve alone = budget_of(profile, 1);
  const CoreCurve burst = budget_of(profile, kBurst);
  std::vector<HtmlFigure> figures = {
      {"first token of a cold adapter", fmt::format("{:.1f} ms", alone.seconds.back() * 1e3),
       fmt::format("{} tokens, rank {}, {} cores", kPrompt, kBudgetRank, profile.workers)},
      {"cores that pay", fmt::format("{} of {}", alone.cores[alone.knee], profile.workers),
       fmt::format("{} adapters at once: {}", kBurst, burst.cores[burst.knee])}};
  const std::vector<FirstToken> measured = measured_first_tokens(profile);
  if (!measured.empty()) {
    figures.push_back({"predicted first tokens are off",
                       fmt::format("{:.0f} %", largest_error(measured) * 100),
                       fmt::format("at most, of {} measured", measured.size())});
  }
  return figures;
}

void add_first_tokens(const Profile& profile, HtmlPage& page) {
  using Look = HtmlCell::Look;
  page.section("What cores buy");
  if (profile.workers <= 0) {
    page.paragraph(none_text());
    return;
  }
  for (const std::string& words : words_of(profile)) page.paragraph(words);
  page.paragraph(fmt::format(
      "Curves are predicted by the planner that serves, from the costs below, for "
      "adapters of q, k and v in host memory; each load begins with its request. A mark "
      "on a curve is at the fewest cores within {:.0f} % of the best.",
      kKneeShare * 100));
  std::vector<Plot> plots;
  for (const PlottedCase& which : kPlotted) plots.push_back(cores_plot(profile, which));
  page.plots(plots);
  const std::vector<FirstToken> measured = measured_first_tokens(profile);
  if (measured.empty()) return;
  page.section("First tokens, measured and predicted");
  HtmlRows rows;
  for (const FirstToken& token : measured) {
    rows.push_back({{std::to_string(token.workers), Look::figure},
                    {std::to_string(token.rank), Look::figure},
                    {std::to_string(token.rows), Look::figure},
                    {fmt::format("{:.2f}", token.seconds * 1e3), Look::figure},
                    {fmt::format("{:.2f}", token.predicted_s * 1e3), Look::figure},
                    {error_text(token.error()), Look::figure},
                    {fmt::format("{:.2f}", token.resident_s * 1e3), Look::figure}});
  }
  page.sortable_table(
      {"cores", "rank", "tokens", "measured, ms", "predicted, ms", "off", "once resident, ms"},
      rows);
}

}  // namespace tandem
