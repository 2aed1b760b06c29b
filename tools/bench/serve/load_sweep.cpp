#include "tools/bench/serve/load_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/parse_number.h"

namespace tandem {
namespace {

constexpr int kSteps = 3;            // measured between the last good and the first bad value
constexpr double kSlower = 2;        // limit of the median latency, relative to the lowest value's
constexpr double kWorthwhile = 1.1;  // least tokens/s, relative to half the limit
constexpr double kMostSweep = 1e6;

double share_of(std::int64_t part, const LoadFigures& figures) {
  const std::int64_t all = figures.completed + figures.failed;
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

bool has_objectives(const ServeReport& report) {
  return !report.conditions.goodput.empty();
}

bool is_good_point(const LoadSweep& sweep, const ServeReport& report) {
  const LoadFigures& figures = report.figures;
  if (has_objectives(report)) return share_of(figures.good, figures) >= sweep.attainment;
  if (share_of(figures.completed, figures) < sweep.attainment) return false;
  if (sweep.points.empty()) return true;
  const LoadFigures& lowest = sweep.points.front().report.figures;
  if (sweep.range.of_rates) return figures.e2el_ms.median() <= kSlower * lowest.e2el_ms.median();
  return figures.output_throughput >=
         kWorthwhile * sweep.points.back().report.figures.output_throughput;
}

void insert(LoadSweep& sweep, SweepPoint point) {
  const auto at = std::find_if(sweep.points.begin(), sweep.points.end(),
                               [&](const SweepPoint& one) { return one.value > point.value; });
  sweep.points.insert(at, std::move(point));
}

std::string value_text(const SweepRange& range, double value) {
  return range.of_rates ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

const char* unit_of(const SweepRange& range) {
  return range.of_rates ? "requests/s" : "at once";
}

std::string knee_text(const LoadSweep& sweep) {
  if (!sweep.knee) {
    return fmt::format("no good run: not even at {} {}", value_text(sweep.range, sweep.range.low),
                       unit_of(sweep.range));
  }
  const bool is_last = *sweep.knee >= sweep.range.high;
  return fmt::format("the knee: {} {}{}", value_text(sweep.range, *sweep.knee),
                     unit_of(sweep.range), is_last ? ", the end of the range, or beyond it" : "");
}

constexpr std::array<const char*, 9> kColumns = {"answered/s", "tokens/s",  "ttft p50",
                                                 "ttft p99",   "tpot mean", "e2el p50",
                                                 "e2el p99",   "met",       "failed"};

std::vector<std::string> cells_of(const SweepPoint& point) {
  const LoadFigures& figures = point.report.figures;
  const auto two = [](double value) { return fmt::format("{:.2f}", value); };
  return {two(figures.request_throughput),
          fmt::format("{:.0f}", figures.output_throughput),
          two(figures.ttft_ms.median()),
          two(figures.ttft_ms.percentile(99)),
          two(figures.tpot_ms.mean()),
          two(figures.e2el_ms.median()),
          two(figures.e2el_ms.percentile(99)),
          has_objectives(point.report)
              ? fmt::format("{:.1f} %", 100 * share_of(figures.good, figures))
              : "-",
          fmt::format("{}", figures.failed)};
}

Plot plot_of(
    const LoadSweep& sweep, const char* title, const char* label,
    const std::vector<std::pair<const char*, std::function<double(const LoadFigures&)>>>& lines) {
  Plot plot;
  plot.title = title;
  plot.x_label = unit_of(sweep.range);
  plot.y_label = label;
  plot.log_x = true;
  plot.y_from_zero = true;
  for (const auto& [name, figure] : lines) {
    PlotSeries series{name, {}, PlotSeries::Mark::line};
    for (const SweepPoint& point : sweep.points) {
      series.points.emplace_back(point.value, figure(point.report.figures));
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace

Result<SweepRange> parse_sweep_range(std::string_view text) {
  const auto wrong = [&] {
    return invalid("sweep: '{}' is no range; give request-rate=1..64 or max-concurrency=1..256",
                   text);
  };
  const std::size_t equals = text.find('=');
  const std::size_t dots = text.find("..", equals == std::string_view::npos ? 0 : equals);
  if (equals == std::string_view::npos || dots == std::string_view::npos) return wrong();
  SweepRange range;
  const std::string_view what = text.substr(0, equals);
  if (what != "request-rate" && what != "max-concurrency") return wrong();
  range.of_rates = what == "request-rate";
  range.low = parse_number<double>(text.substr(equals + 1, dots - equals - 1)).value_or(0);
  range.high = parse_number<double>(text.substr(dots + 2)).value_or(0);
  if (range.low <= 0 || range.high < range.low || range.high > kMostSweep) return wrong();
  const bool whole = range.low == std::floor(range.low) && range.high == std::floor(range.high);
  if (!range.of_rates && !whole) return wrong();
  return range;
}

Result<LoadSweep> run_load_sweep(
    const SweepRange& range, double attainment,
    const std::function<Result<std::optional<ServeReport>>(double value, std::int64_t number)>&
        measure) {
  LoadSweep sweep;
  sweep.range = range;
  sweep.attainment = attainment;
  double bad = 0;
  std::int64_t number = 0;
  // Returns whether the value was good; nothing if it was not measured.
  const auto at = [&](double value) -> Result<std::optional<bool>> {
    TANDEM_ASSIGN(std::optional<ServeReport> report, measure(value, number++));
    if (!report) return std::optional<bool>();
    SweepPoint point{value, std::move(*report), false};
    point.good = is_good_point(sweep, point.report);
    const bool good = point.good;
    if (good && (!sweep.knee || value > *sweep.knee)) sweep.knee = value;
    insert(sweep, std::move(point));
    return std::optional<bool>(good);
  };
  for (double value = range.low;; value = std::min(value * 2, range.high)) {
    TANDEM_ASSIGN(const std::optional<bool> good, at(value));
    if (!good) return sweep;
    if (!*good) bad = value;
    if (!*good || value >= range.high) break;
  }
  const bool has_between =
      bad > 0 && sweep.knee && (range.of_rates || has_objectives(sweep.points[0].report));
  for (int step = 0; has_between && step < kSteps; ++step) {
    double middle = std::sqrt(*sweep.knee * bad);
    if (!range.of_rates) middle = std::round(middle);
    if (middle <= *sweep.knee || middle >= bad) break;
    TANDEM_ASSIGN(const std::optional<bool> good, at(middle));
    if (!good) return sweep;
    if (!*good) bad = middle;
  }
  return sweep;
}

std::string LoadSweep::text() const {
  std::string out = fmt::format("\n  {:>11}", unit_of(range));
  for (const char* name : kColumns) out += fmt::format("{:>11}", name);
  out += '\n';
  for (const SweepPoint& point : points) {
    out += fmt::format("  {:>11}", value_text(range, point.value));
    for (const std::string& cell : cells_of(point)) out += fmt::format("{:>11}", cell);
    out += point.good ? "\n" : "  past it\n";
  }
  return out + fmt::format("\n  {}\n", knee_text(*this));
}

nlohmann::ordered_json LoadSweep::to_json(bool detailed) const {
  nlohmann::ordered_json json;
  json["sweep"] = range.of_rates ? "request-rate" : "max-concurrency";
  json["attainment"] = attainment;
  json["knee"] = knee ? nlohmann::ordered_json(*knee) : nlohmann::ordered_json(nullptr);
  json["points"] = nlohmann::ordered_json::array();
  for (const SweepPoint& point : points) {
    nlohmann::ordered_json one = {{"value", point.value}, {"good", point.good}};
    one.update(point.report.to_json(detailed));
    json["points"].push_back(std::move(one));
  }
  return json;
}

HtmlPage LoadSweep::to_html() const {
  using Look = HtmlCell::Look;
  HtmlPage page("tandem bench serve: a sweep",
                origin_here(points.empty() ? "" : points.front().report.conditions.command));
  page.summary({{knee ? "the knee" : "no good run",
                 knee ? fmt::format("{} {}", value_text(range, *knee), unit_of(range)) : "0",
                 knee_text(*this), knee ? Look::good : Look::bad},
                {"runs", fmt::format("{}", points.size())}});
  if (points.empty()) return page;
  page.plots({plot_of(*this, "Time to the first token", "ms",
                      {{"p50", [](const LoadFigures& f) { return f.ttft_ms.median(); }},
                       {"p99", [](const LoadFigures& f) { return f.ttft_ms.percentile(99); }}}),
              plot_of(*this, "Latency", "ms",
                      {{"p50", [](const LoadFigures& f) { return f.e2el_ms.median(); }},
                       {"p99", [](const LoadFigures& f) { return f.e2el_ms.percentile(99); }}}),
              plot_of(*this, "Output tokens a second", "tokens/s",
                      {{"tokens/s", [](const LoadFigures& f) { return f.output_throughput; }}})});
  std::vector<std::string> head = {unit_of(range)};
  head.insert(head.end(), kColumns.begin(), kColumns.end());
  head.emplace_back("verdict");
  HtmlRows rows;
  for (const SweepPoint& point : points) {
    std::vector<HtmlCell>& row = rows.emplace_back();
    row.push_back({value_text(range, point.value), Look::figure});
    for (const std::string& cell : cells_of(point)) row.push_back({cell, Look::figure});
    row.push_back({point.good ? "good" : "past the knee", point.good ? Look::good : Look::bad});
  }
  page.section("Runs");
  page.sortable_table(head, rows);
  const LoadConditions& asked = points.front().report.conditions;
  page.condition("server", asked.url);
  page.condition("model", asked.model);
  page.condition("prompts of a run", fmt::format("{} of {}", asked.num_prompts, asked.dataset));
  return page;
}

}  // namespace tandem
