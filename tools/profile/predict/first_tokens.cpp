#include "tools/profile/predict/first_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

namespace tandem {
namespace {

std::string ms_text(double seconds) {
  const double ms = seconds * 1e3;
  return ms < 100 ? fmt::format("{:.1f} ms", ms) : fmt::format("{:.0f} ms", ms);
}

std::string cores_text(std::int32_t count) {
  return fmt::format("{} core{}", count, count == 1 ? "" : "s");
}

// The number of cores from which on more cores bring no noticeable gain.
std::string knee_words(const CoreCurve& curve) {
  const std::int32_t all = curve.cores.back();
  const std::int32_t knee = curve.cores[curve.knee];
  if (knee == 0) {
    return fmt::format("Cores shorten that by less than {:.0f} %: waiting for the link is as good.",
                       kKneeShare * 100);
  }
  if (knee == all) {
    return all == 1 ? "It pays." : fmt::format("All {} pay.", all);
  }
  return fmt::format("More than {} shorten it by less than {:.0f} %.", cores_text(knee),
                     kKneeShare * 100);
}

// Limits the number of points, because a profile from elsewhere may have thousands of cores.
std::vector<std::int32_t> counts_up_to(std::int32_t most) {
  constexpr std::int32_t kEach = 64;
  std::vector<std::int32_t> counts = {most / 2, most};
  for (std::int32_t count = 0; count < most; count += std::max(1, count / kEach)) {
    counts.push_back(count);
  }
  std::ranges::sort(counts);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

using Points = std::map<double, double>;

// Linear interpolation between the two points around `x`; constant outside. Requires points.
double between(const Points& points, double x) {
  const auto above = points.lower_bound(x);
  if (above == points.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == points.end()) return below->second;
  const double share = (x - below->first) / (above->first - below->first);
  return below->second + share * (above->second - below->second);
}

// Seconds of a step with this many rows, interpolated from the measured steps; beyond the last one
// scaled by the costs. Without measured steps, from the costs alone.
double step_s(const Profile& profile, std::int32_t rows) {
  const auto by_costs = [&](double count) {
    return profile.costs.layer_time(static_cast<std::int32_t>(count)) *
           static_cast<double>(profile.model.num_layers);
  };
  Points steps;
  if (const ProfileTable* table = profile.table("prefill"); table != nullptr) {
    const std::vector<double> tokens = table->column("tokens");
    const std::vector<double> seconds = table->column("seconds");
    for (std::size_t i = 0; i < std::min(tokens.size(), seconds.size()); ++i) {
      if (tokens[i] > 0 && tokens[i] < 1e9 && seconds[i] > 0) steps[tokens[i]] = seconds[i];
    }
  }
  if (steps.empty()) return by_costs(rows);
  const double last = steps.rbegin()->first;
  return between(steps, rows) * (rows > last ? by_costs(rows) / by_costs(last) : 1);
}

}  // namespace

double middle_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double request_s(const Profile& profile, const std::vector<FirstToken>& tokens, std::int32_t rows) {
  std::map<std::int32_t, std::vector<double>> seen;  // by rows
  for (const FirstToken& token : tokens) {
    seen[token.rows].push_back(token.resident_s - step_s(profile, token.rows));
  }
  if (seen.empty()) return 0;
  Points points;
  for (auto& [count, values] : seen) points[count] = middle_of(std::move(values));
  return std::max(between(points, rows), -step_s(profile, rows) / 2);
}

double first_token_s(const Profile& profile, const PlanQuestion& question) {
  // The costs are a line through all steps, from which single steps may deviate by a fifth. So the
  // measured time of this number of rows replaces the line.
  Profile of_step;
  of_step.model = profile.model;
  of_step.workers = profile.workers;
  of_step.costs = profile.costs;
  const std::int32_t rows = question.tokens * question.cold;
  of_step.costs.layer_s = step_s(profile, rows) / static_cast<double>(profile.model.num_layers);
  of_step.costs.layer_row_s = 0;
  return answer(of_step, question).planned.layer_ends.back() +
         request_s(profile, measured_first_tokens(profile), rows);
}

std::size_t find_knee(const std::vector<double>& seconds) {
  if (seconds.empty()) return 0;
  const double enough = *std::ranges::min_element(seconds) * (1 + kKneeShare);
  const auto first = std::ranges::find_if(seconds, [&](double each) { return each <= enough; });
  return static_cast<std::size_t>(first - seconds.begin());
}

double CoreCurve::seconds_of(std::int32_t count) const {
  return seconds[static_cast<std::size_t>(std::ranges::find(cores, count) - cores.begin())];
}

CoreCurve core_curve(const Profile& profile, const PlanQuestion& question) {
  CoreCurve curve{question, counts_up_to(profile.workers), {}, 0};
  for (const std::int32_t cores : curve.cores) {
    PlanQuestion with = question;
    with.cores = cores;
    curve.seconds.push_back(first_token_s(profile, with));
  }
  curve.knee = find_knee(curve.seconds);
  return curve;
}

std::vector<CoreCurve> core_curves(const Profile& profile, std::int32_t rank, std::int32_t cold) {
  std::vector<CoreCurve> curves;
  for (const std::int32_t rows : kCurveRows) {
    PlanQuestion question;
    question.tokens = rows;
    question.rank = rank;
    question.cold = cold;
    curves.push_back(core_curve(profile, question));
  }
  return curves;
}

std::string budget_words(const CoreCurve& curve) {
  const std::int32_t all = curve.cores.back();
  const PlanQuestion& q = curve.question;
  const auto time = [&](std::int32_t cores) { return ms_text(curve.seconds_of(cores)); };
  const std::string whose =
      q.cold == 1
          ? fmt::format("a {}-token prompt of a cold rank-{} adapter starts", q.tokens, q.rank)
          : fmt::format("{0} {1}-token prompts of {0} cold rank-{2} adapters at once start", q.cold,
                        q.tokens, q.rank);
  if (all <= 0) return fmt::format("No cores: {} in {}.", whose, time(0));
  std::string text = fmt::format("{}: {} in {}", cores_text(all), whose, time(all));
  if (all > 1) text += fmt::format("; {} of them: {}", all / 2, time(all / 2));
  return text + fmt::format("; none: {}. {}", time(0), knee_words(curve));
}

ProfileTable first_token_table() {
  return {
      kFirstTokenTable, {"workers", "rank", "rows", "predicted_s", "seconds", "resident_s"}, {}};
}

void add_first_token(const FirstToken& token, ProfileTable& table) {
  table.rows.push_back({static_cast<double>(token.workers), static_cast<double>(token.rank),
                        static_cast<double>(token.rows), token.predicted_s, token.seconds,
                        token.resident_s});
}

std::vector<FirstToken> measured_first_tokens(const Profile& profile) {
  constexpr double kMost = 1e6;  // of workers, ranks and rows
  std::vector<FirstToken> tokens;
  const ProfileTable* table = profile.table(kFirstTokenTable);
  if (table == nullptr || table->columns != first_token_table().columns) return tokens;
  for (const std::vector<double>& row : table->rows) {
    const bool whole = std::all_of(row.begin(), row.begin() + 3,
                                   [](double value) { return value >= 0 && value <= kMost; });
    if (!whole || !(row[3] > 0) || !(row[4] > 0) || !(row[5] > 0)) continue;
    tokens.push_back({static_cast<std::int32_t>(row[0]), static_cast<std::int32_t>(row[1]),
                      static_cast<std::int32_t>(row[2]), row[3], row[4], row[5]});
  }
  return tokens;
}

}  // namespace tandem
