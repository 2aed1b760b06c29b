// ServeReport as an HTML page.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tools/bench/serve/results/serve_report.h"

namespace tandem {
namespace {

using Look = HtmlCell::Look;

std::string two_digits(double value) {
  return fmt::format("{:.2f}", value);
}

// More dots would look the same and make pages of megabytes.
constexpr std::size_t kMostDots = 2000;

// Keeps every n-th point, so that at most kMostDots remain.
void thin_out(PlotSeries& series) {
  const std::size_t every = series.points.size() / kMostDots + 1;
  std::vector<std::pair<double, double>> kept;
  for (std::size_t i = 0; i < series.points.size(); i += every) kept.push_back(series.points[i]);
  series.points = std::move(kept);
}

std::vector<HtmlFigure> summary_of(const ServeReport& report) {
  const LoadFigures& figures = report.figures;
  std::vector<HtmlFigure> out = {
      {"requests/s", two_digits(figures.request_throughput)},
      {"output tokens/s", fmt::format("{:.0f}", figures.output_throughput)},
      {"requests answered", fmt::format("{}", figures.completed),
       fmt::format("in {:.1f} s", figures.duration_s)}};
  if (figures.failed > 0) {
    out.push_back({"requests failed", fmt::format("{}", figures.failed), "", Look::bad});
  }
  if (!report.conditions.goodput.empty()) {
    const auto all =
        static_cast<double>(std::max<std::int64_t>(1, figures.completed + figures.failed));
    out.push_back({"within the objectives",
                   fmt::format("{:.1f} %", 100 * static_cast<double>(figures.good) / all),
                   fmt::format("{:.2f} requests/s", figures.request_goodput)});
  }
  for (const auto& [name, spread] :
       {std::pair{"time to the first token", &figures.ttft_ms},
        std::pair{"time per output token", &figures.tpot_ms},
        std::pair{"first token, cold adapter", &figures.cold_ttft_ms}}) {
    if (spread->count() == 0) continue;
    out.push_back({name, fmt::format("{:.2f} ms", spread->median()),
                   fmt::format("median; p99 {:.2f} ms", spread->percentile(99))});
  }
  return out;
}

// The run in parts of equal length: about a second each, but always enough to show changes.
class RunParts {
 public:
  explicit RunParts(double duration_s)
      : count_(
            std::clamp<std::size_t>(static_cast<std::size_t>(std::max(0.0, duration_s)), 20, 200)),
        part_s_(std::max(duration_s, 1e-3) / static_cast<double>(count_)) {}

  std::size_t count() const { return count_; }
  double part_s() const { return part_s_; }
  double middle_s(std::size_t part) const { return (static_cast<double>(part) + 0.5) * part_s_; }
  std::size_t at(double at_s) const {
    return std::min(static_cast<std::size_t>(std::max(0.0, at_s) / part_s_), count_ - 1);
  }

 private:
  std::size_t count_;
  double part_s_;
};

PlotSeries line_of(const char* name, const RunParts& parts, const std::vector<double>& values) {
  PlotSeries series{name, {}, PlotSeries::Mark::line};
  for (std::size_t i = 0; i < parts.count(); ++i) {
    series.points.emplace_back(parts.middle_s(i), values[i]);
  }
  return series;
}

Plot plot_by_time(const char* title, const char* y_label) {
  Plot plot;
  plot.title = title;
  plot.x_label = "time, s";
  plot.y_label = y_label;
  plot.y_from_zero = true;
  return plot;
}

std::vector<Plot> time_series(const ServeReport& report) {
  PlotSeries warm{"base or warm adapter", {}, PlotSeries::Mark::dots};
  PlotSeries cold{"cold adapter", {}, PlotSeries::Mark::dots};
  const RunParts parts(report.figures.duration_s);
  std::vector<double> due(parts.count(), 0), answered(parts.count(), 0), running(parts.count(), 0);
  for (const RequestRecord& record : report.records) {
    if (record.outcome == RequestOutcome::unsent) continue;
    due[parts.at(record.due_s)] += 1 / parts.part_s();
    for (std::size_t i = parts.at(record.sent_s); i <= parts.at(record.end_s); ++i) {
      const double begin_s = static_cast<double>(i) * parts.part_s();
      const double there_s =
          std::min(record.end_s, begin_s + parts.part_s()) - std::max(record.sent_s, begin_s);
      running[i] += std::max(0.0, there_s) / parts.part_s();
    }
    if (record.outcome != RequestOutcome::ok) continue;
    answered[parts.at(record.end_s)] += 1 / parts.part_s();
    const RequestTimes times = times_of(record, report.conditions.count_from);
    (is_cold(record) ? cold : warm).points.emplace_back(record.due_s, times.ttft_ms);
  }
  thin_out(warm);
  thin_out(cold);
  Plot delays = plot_by_time("Time to the first token, by due time", "ms");
  delays.series.push_back(std::move(warm));
  if (!cold.points.empty()) delays.series.push_back(std::move(cold));
  Plot flow = plot_by_time("Requests a second", "requests/s");
  flow.series = {line_of("due", parts, due), line_of("answered", parts, answered)};
  Plot under_way = plot_by_time("Requests in progress", "requests, mean");
  under_way.series = {line_of("in progress", parts, running)};
  return {std::move(delays), std::move(flow), std::move(under_way)};
}

std::vector<Plot> distributions(const ServeReport& report) {
  const LoadFigures& figures = report.figures;
  std::vector<Plot> plots;
  for (const std::string& metric : report.conditions.metrics) {
    const SampleSpread& spread = metric_spread(figures, metric);
    if (spread.count() == 0) continue;
    std::vector<PlotSeries> series = {cdf_series("all", spread.sorted())};
    if (metric == "ttft" && figures.cold_ttft_ms.count() > 0) {
      // Cold adapters have the second colour in the plots over time, too.
      series.push_back(cdf_series("cold adapter", figures.cold_ttft_ms.sorted()));
      series.push_back(cdf_series("warm adapter", figures.warm_ttft_ms.sorted()));
    }
    plots.push_back(cdf_plot(metric_title(metric), "ms", std::move(series)));
  }
  return plots;
}

void add_delays(const ServeReport& report, HtmlPage& page) {
  const LoadConditions& asked = report.conditions;
  std::vector<std::string> head = {"", "mean", "median", "standard deviation"};
  for (const double percent : asked.percentiles) {
    head.push_back(fmt::format("p{}", percentile_name(percent)));
  }
  HtmlRows rows;
  for (const std::string& metric : asked.metrics) {
    const SampleSpread& spread = metric_spread(report.figures, metric);
    std::vector<HtmlCell>& row = rows.emplace_back();
    row.push_back({metric_title(metric), Look::text});
    for (const double value : {spread.mean(), spread.median(), spread.deviation()}) {
      row.push_back({two_digits(value), Look::figure});
    }
    for (const double percent : asked.percentiles) {
      row.push_back({two_digits(spread.percentile(percent)), Look::figure});
    }
  }
  page.section("Latency");
  page.paragraph(
      "Times are in milliseconds. A request is cold if its adapter was not on the device when it "
      "came.");
  page.table(head, rows);
}

void add_models(const ServeReport& report, HtmlPage& page) {
  HtmlRows rows;
  for (const AdapterFigures* one : by_requests(report.figures)) {
    const auto figure = [](const SampleSpread& spread, double value) {
      return HtmlCell{spread.count() == 0 ? "" : two_digits(value), Look::figure};
    };
    rows.push_back({{report.adapter_name(one->adapter), Look::text},
                    {fmt::format("{}", one->completed), Look::figure},
                    {fmt::format("{}", one->failed), one->failed > 0 ? Look::bad : Look::figure},
                    {fmt::format("{}", one->cold), Look::figure},
                    {one->first_ttft_ms ? two_digits(*one->first_ttft_ms) : "", Look::figure},
                    figure(one->cold_ttft_ms, one->cold_ttft_ms.mean()),
                    figure(one->warm_ttft_ms, one->warm_ttft_ms.mean()),
                    figure(one->warm_ttft_ms, one->warm_ttft_ms.percentile(99)),
                    figure(one->tpot_ms, one->tpot_ms.mean())});
  }
  page.section("Models");
  page.paragraph("Times are in milliseconds, and means where nothing else is said.");
  page.sortable_table({"model", "answered", "failed", "cold", "first ttft", "cold ttft",
                       "warm ttft", "warm ttft p99", "tpot"},
                      rows);
}

void add_conditions(const LoadConditions& asked, HtmlPage& page) {
  page.condition("server", asked.url);
  page.condition("model", asked.model);
  page.condition("prompts", fmt::format("{} of {}", asked.num_prompts, asked.dataset));
  page.condition("requests a second", fmt::format("{:g}", asked.request_rate));
  page.condition("most requests at once", asked.max_concurrency == 0
                                              ? "any number"
                                              : fmt::format("{}", asked.max_concurrency));
  page.condition("times count from", asked.count_from == CountFrom::due ? "when a request is due"
                                                                        : "when a request is sent");
  for (const auto& [name, value] : asked.metadata) page.condition(name, value);
  for (const std::string& note : asked.notes) page.condition("note", note);
}

}  // namespace

std::string metric_title(std::string_view metric) {
  if (metric == "ttft") return "Time to the first token (ttft)";
  if (metric == "tpot") return "Time per output token (tpot)";
  if (metric == "itl") return "Time between tokens (itl)";
  return "Latency (e2el)";
}

HtmlPage ServeReport::to_html() const {
  HtmlPage page(conditions.label.empty() ? "tandem bench serve" : conditions.label,
                origin_here(conditions.command));
  page.summary(summary_of(*this));
  add_delays(*this, page);
  page.section("Distributions");
  page.plots(distributions(*this));
  page.section("Over time");
  page.plots(time_series(*this));
  add_models(*this, page);
  if (!figures.errors.empty()) {
    HtmlRows rows;
    for (const auto& [error, count] : figures.errors) {
      rows.push_back({{error, Look::text}, {fmt::format("{}", count), Look::figure}});
    }
    page.section("Failures");
    page.sortable_table({"reason", "requests"}, rows);
  }
  add_conditions(conditions, page);
  return page;
}

}  // namespace tandem
