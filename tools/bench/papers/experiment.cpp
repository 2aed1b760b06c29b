#include "tools/bench/papers/experiment.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem::papers {

void Findings::add(std::string_view name, double x, double y) {
  auto found = std::ranges::find(series, name, &PlotSeries::name);
  if (found == series.end()) {
    series.push_back({std::string(name), {}});
    found = series.end() - 1;
  }
  found->points.emplace_back(x, y);
}

double Findings::at(std::string_view name, double x) const {
  const auto found = std::ranges::find(series, name, &PlotSeries::name);
  TANDEM_CHECK(found != series.end(), "there is no series {}", name);
  const auto point = std::ranges::find(found->points, x, &std::pair<double, double>::first);
  TANDEM_CHECK(point != found->points.end(), "{} has no point at {}", name, x);
  return point->second;
}

void Findings::judge(bool shown, std::string why_not) {
  verdict = shown ? Verdict::shown : Verdict::not_shown;
  if (!shown) why = std::move(why_not);
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::shown:
      return "shown";
    case Verdict::not_shown:
      return "not shown";
    case Verdict::measured:
      return "measured";
    case Verdict::not_run:
      break;
  }
  return "not run";
}

std::string_view to_string(Ground ground) {
  switch (ground) {
    case Ground::simulated:
      return "simulated";
    case Ground::counted:
      return "counted";
    case Ground::device:
      break;
  }
  return "device";
}

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> all = [] {
    std::vector<Experiment> joined;
    for (const auto& paper : {punica_experiments(), s_lora_experiments(), caraserve_experiments(),
                              essay_experiments()}) {
      joined.insert(joined.end(), paper.begin(), paper.end());
    }
    return joined;
  }();
  return all;
}

}  // namespace tandem::papers
