// ServeReport as a page.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tools/bench/serve/serve_report.h"
#include "tools/cli/machine.h"
#include "tools/cli/version.h"

namespace tandem {
namespace {

using Look = HtmlCell::Look;

std::string two_digits(double value) {
  return fmt::format("{:.2f}", value);
}

// More would make pages of megabytes and look the same.
constexpr std::size_t kMostDots = 2000;

// Every n-th, so that there are not too many.
void thin_out(PlotSeries& series) {
  const std::size_t every = series.points.size() / kMostDots + 1;
  std::vector<std::pair<double, double>> kept;
  for (std::size_t i = 0; i < series.points.size(); i += every) kept.push_back(series.points[i]);
  series.points = std::move(kept);
}

// Of each of the run's seconds.
std::vector<Plot> time_series(const ServeReport& report) {
  PlotSeries ttft{"ttft", {}, PlotSeries::Mark::dots};
  PlotSeries cold{"ttft, cold adapter", {}, PlotSeries::Mark::dots};
  const auto seconds = static_cast<std::size_t>(std::max(0.0, report.figures.duration_s)) + 1;
  std::vector<double> answered(seconds, 0);
  std::vector<double> asked(seconds, 0);
  for (const RequestRecord& record : report.records) {
    if (record.outcome == RequestOutcome::unsent) continue;
    const auto second = [&](double at_s) {
      return std::min(static_cast<std::size_t>(std::max(0.0, at_s)), seconds - 1);
    };
    asked[second(record.due_s)] += 1;
    if (record.outcome != RequestOutcome::ok) continue;
    answered[second(record.end_s)] += 1;
    const RequestTimes times = times_of(record, report.conditions.count_from);
    (is_cold(record) ? cold : ttft).points.emplace_back(record.due_s, times.ttft_ms);
  }
  thin_out(ttft);
  thin_out(cold);
  Plot delays;
  delays.title = "Time to the first token, by when it was due";
  delays.x_label = "s";
  delays.y_label = "ms";
  delays.y_from_zero = true;
  delays.series.push_back(std::move(ttft));
  if (!cold.points.empty()) delays.series.push_back(std::move(cold));
  Plot flow;
  flow.title = "Requests in each second";
  flow.x_label = "s";
  flow.y_label = "requests";
  flow.y_from_zero = true;
  flow.series = {{"due", {}, PlotSeries::Mark::line}, {"answered", {}, PlotSeries::Mark::line}};
  for (std::size_t i = 0; i < seconds; ++i) {
    flow.series[0].points.emplace_back(static_cast<double>(i), asked[i]);
    flow.series[1].points.emplace_back(static_cast<double>(i), answered[i]);
  }
  return {std::move(delays), std::move(flow)};
}

void add_conditions(const ServeReport& report, HtmlPage& page) {
  const LoadConditions& asked = report.conditions;
  std::vector<std::vector<HtmlCell>> rows;
  const auto add = [&](const char* name, const std::string& value) {
    rows.push_back({{name, Look::text}, {value, Look::text}});
  };
  add("command", asked.command);
  add("server", asked.url);
  add("model", asked.model);
  add("prompts", fmt::format("{} of {}", asked.num_prompts, asked.dataset));
  add("requests a second", fmt::format("{:g}", asked.request_rate));
  add("at once, at most",
      asked.max_concurrency == 0 ? "any number" : fmt::format("{}", asked.max_concurrency));
  add("delays count from",
      asked.count_from == CountFrom::due ? "when a request is due" : "when a request is sent");
  add("load generator", fmt::format("commit {}, {}, {} usable cores", build_commit(), cpu_name(),
                                    usable_cpus().size()));
  for (const auto& [name, value] : asked.metadata) add(name.c_str(), value);
  for (const std::string& note : asked.notes) add("note", note);
  page.section("Conditions");
  page.table({"", ""}, rows);
}

}  // namespace

HtmlPage ServeReport::to_html() const {
  HtmlPage page(conditions.label.empty() ? "tandem bench serve" : conditions.label);
  page.paragraph(
      fmt::format("{}: {:.2f} requests/s, {:.0f} output tokens/s; {} answered, {} failed "
                  "in {:.1f} s",
                  conditions.url, figures.request_throughput, figures.output_throughput,
                  figures.completed, figures.failed, figures.duration_s));
  std::vector<std::vector<HtmlCell>> rows;
  std::vector<std::string> head = {"ms", "mean", "median", "std"};
  for (const double percent : conditions.percentiles)
    head.push_back(fmt::format("p{}", percentile_name(percent)));
  std::vector<Plot> plots;
  for (const std::string& metric : conditions.metrics) {
    const SampleSpread& spread = metric_spread(figures, metric);
    std::vector<HtmlCell>& row = rows.emplace_back();
    row.push_back({metric, Look::text});
    for (const double value : {spread.mean(), spread.median(), spread.deviation()}) {
      row.push_back({two_digits(value), Look::figure});
    }
    for (const double percent : conditions.percentiles) {
      row.push_back({two_digits(spread.percentile(percent)), Look::figure});
    }
    if (spread.count() > 0) {
      plots.push_back(cdf_plot(metric, "ms", {cdf_series(metric, spread.sorted())}));
    }
  }
  page.section("Delays");
  page.table(head, rows);
  for (Plot& plot : time_series(*this)) plots.push_back(std::move(plot));
  page.plots(plots);
  rows.clear();
  for (const AdapterFigures& one : figures.adapters) {
    const auto figure = [](const SampleSpread& spread, double value) {
      return HtmlCell{spread.count() == 0 ? "" : two_digits(value), Look::figure};
    };
    rows.push_back({{adapter_name(one.adapter), Look::text},
                    {fmt::format("{}", one.completed), Look::figure},
                    {fmt::format("{}", one.failed), one.failed > 0 ? Look::bad : Look::figure},
                    {fmt::format("{}", one.cold), Look::figure},
                    {one.first_ttft_ms ? two_digits(*one.first_ttft_ms) : "", Look::figure},
                    figure(one.cold_ttft_ms, one.cold_ttft_ms.mean()),
                    figure(one.warm_ttft_ms, one.warm_ttft_ms.mean()),
                    figure(one.warm_ttft_ms, one.warm_ttft_ms.percentile(99)),
                    figure(one.tpot_ms, one.tpot_ms.mean())});
  }
  page.section("Models");
  page.table({"", "answered", "failed", "cold", "first ttft, ms", "cold ttft", "warm ttft",
              "warm p99", "tpot"},
             rows);
  if (!figures.errors.empty()) {
    rows.clear();
    for (const auto& [error, count] : figures.errors) {
      rows.push_back({{error, Look::text}, {fmt::format("{}", count), Look::figure}});
    }
    page.section("Failures");
    page.table({"reason", "requests"}, rows);
  }
  add_conditions(*this, page);
  return page;
}

}  // namespace tandem
