#include "tools/simulate/simulate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tools/report/plot.h"

namespace tandem {
namespace {

using Look = HtmlCell::Look;

nlohmann::ordered_json distribution_json(const Distribution& one) {
  nlohmann::ordered_json json = {{"mean", one.mean}, {"p50", one.p50}, {"p99", one.p99}};
  json["cdf"] = one.cdf;
  return json;
}

nlohmann::ordered_json policy_json(const PolicyResult& result) {
  nlohmann::ordered_json json;
  json["policy"] = result.policy;
  json["requests"] = result.requests;
  json["given_up"] = result.given_up;
  json["unfinished"] = result.unfinished;
  json["slo_attainment"] = result.slo_attainment;
  json["user_satisfaction"] = result.satisfaction;
  json["ttft_attainment"] = result.ttft_attainment;
  json["ttft_ms"] = distribution_json(result.ttft_ms);
  json["tpot_ms"] = distribution_json(result.tpot_ms);
  json["time_per_token_ms"] = distribution_json(result.token_ms);
  json["latency_ms"] = distribution_json(result.latency_ms);
  json["cold_share"] = result.cold_share;
  json["cached_share"] = result.cached_share;
  json["loads"] = result.loads;
  json["fetches"] = result.fetches;
  json["tokens_per_s"] = result.tokens_per_s;
  json["simulated_s"] = result.simulated_s;
  json["wall_s"] = result.wall_s;
  json["decision_us"] = result.decision_us;
  json["queue"] = nlohmann::ordered_json::array();
  for (const QueueLength& one : result.queue) {
    json["queue"].push_back({one.at_s, one.all, one.longest, one.running, one.busy});
  }
  return json;
}

std::string ms(double value) {
  return fmt::format("{:.{}f}", value, value < 99.95 ? 1 : 0);
}

// A column of the table; its best value is highlighted.
template <typename Better>
std::vector<HtmlCell> column(const std::vector<PolicyResult>& all,
                             double (*get)(const PolicyResult&), std::string (*text)(double),
                             Better better) {
  double best = get(all.front());
  for (const PolicyResult& one : all) {
    if (better(get(one), best)) best = get(one);
  }
  std::vector<HtmlCell> cells;
  for (const PolicyResult& one : all) {
    const bool is_best = get(one) == best && all.size() > 1;
    cells.push_back({text(get(one)), is_best ? Look::best : Look::figure});
  }
  return cells;
}

PlotSeries line_of(const PolicyResult& result, std::vector<std::pair<double, double>> points) {
  return {result.policy, std::move(points), PlotSeries::Mark::line, result.policy == "tandem"};
}

// Curves end at p99, because the few requests beyond it would take most of the axis.
Plot cdf_of(const SimulateReport& report, const char* title, Distribution PolicyResult::*which) {
  constexpr double kLast = 0.99;
  std::vector<PlotSeries> series;
  for (const PolicyResult& one : report.policies) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [value, share] : (one.*which).cdf) {
      if (share <= kLast) points.emplace_back(value, share);
    }
    points.emplace_back((one.*which).p99, kLast);
    series.push_back(line_of(one, std::move(points)));
  }
  return cdf_plot(title, "ms", std::move(series));
}

Plot queue_of(const SimulateReport& report, const char* title, std::int64_t QueueLength::*which) {
  Plot plot;
  plot.title = title;
  plot.x_label = "simulated time, s";
  plot.y_label = "requests";
  plot.y_from_zero = true;
  for (const PolicyResult& one : report.policies) {
    std::vector<std::pair<double, double>> points;
    for (const QueueLength& at : one.queue) {
      points.emplace_back(at.at_s, static_cast<double>(at.*which));
    }
    plot.series.push_back(line_of(one, std::move(points)));
  }
  return plot;
}

std::vector<HtmlFigure> summary_of(const SimulateReport& report) {
  std::vector<HtmlFigure> figures;
  if (!report.policies.empty()) {
    const PolicyResult& best = *std::max_element(
        report.policies.begin(), report.policies.end(),
        [](const auto& a, const auto& b) { return a.slo_attainment < b.slo_attainment; });
    const std::string what = report.policies.size() > 1 ? "best policy" : "policy";
    figures = {{what, best.policy,
                fmt::format("{:.2f} % of {} requests within the SLO", best.slo_attainment * 100,
                            best.requests)},
               {"its time to the first token", ms(best.ttft_ms.mean) + " ms",
                fmt::format("mean; p99 {} ms", ms(best.ttft_ms.p99))},
               {"its latency", ms(best.latency_ms.mean) + " ms",
                fmt::format("mean; p99 {} ms", ms(best.latency_ms.p99))}};
  }
  figures.push_back({"SLO", fmt::format("{:.2f} ms", report.slo_token_ms), "latency per token"});
  figures.push_back({"capacity of the cluster",
                     fmt::format("{:.0f} requests/s", report.capacity_per_s),
                     "in full batches without cold starts"});
  return figures;
}

}  // namespace

std::string simulate_table_head() {
  return fmt::format("{:<12}{:>9}{:>9}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}{:>8}\n",
                     "policy", "SLO", "satisf.", "TTFT", "p99", "TPOT", "per token", "p99",
                     "latency", "p99", "cold", "wall");
}

std::string simulate_table_row(const PolicyResult& one) {
  return fmt::format(
      "{:<12}{:>7.2f} %{:>7.2f} %{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>6.1f} %{:>6.1f} s\n",
      one.policy, one.slo_attainment * 100, one.satisfaction * 100, ms(one.ttft_ms.mean),
      ms(one.ttft_ms.p99), ms(one.tpot_ms.mean), ms(one.token_ms.mean), ms(one.token_ms.p99),
      ms(one.latency_ms.mean), ms(one.latency_ms.p99), one.cold_share * 100, one.wall_s);
}

nlohmann::ordered_json SimulateReport::to_json() const {
  nlohmann::ordered_json json;
  json["command"] = command;
  json["machine"] = machine;
  for (const auto& [name, value] : setting) json["setting"][name] = value;
  json["slo_token_ms"] = slo_token_ms;
  json["capacity_per_s"] = capacity_per_s;
  json["policies"] = nlohmann::ordered_json::array();
  for (const PolicyResult& one : policies) json["policies"].push_back(policy_json(one));
  return json;
}

HtmlPage SimulateReport::to_html() const {
  HtmlPage page("tandem simulate", origin_here(command));
  page.summary(summary_of(*this));
  page.paragraph(
      fmt::format("A simulated cluster: {}. A request meets its SLO if its latency divided by its "
                  "output tokens "
                  "is at most {:.2f} ms.",
                  machine, slo_token_ms));
  if (!policies.empty()) {
    const auto more = [](double a, double b) { return a > b; };
    const auto less = [](double a, double b) { return a < b; };
    const auto percent = [](double share) { return fmt::format("{:.2f} %", share * 100); };
    using R = PolicyResult;
    const HtmlRows columns = {
        column(
            policies, [](const R& r) { return r.slo_attainment; }, percent, more),
        column(
            policies, [](const R& r) { return r.satisfaction; }, percent, more),
        column(
            policies, [](const R& r) { return r.ttft_ms.mean; }, ms, less),
        column(
            policies, [](const R& r) { return r.ttft_ms.p50; }, ms, less),
        column(
            policies, [](const R& r) { return r.ttft_ms.p99; }, ms, less),
        column(
            policies, [](const R& r) { return r.tpot_ms.mean; }, ms, less),
        column(
            policies, [](const R& r) { return r.tpot_ms.p99; }, ms, less),
        column(
            policies, [](const R& r) { return r.token_ms.mean; }, ms, less),
        column(
            policies, [](const R& r) { return r.token_ms.p99; }, ms, less),
        column(
            policies, [](const R& r) { return r.latency_ms.mean; }, ms, less),
        column(
            policies, [](const R& r) { return r.latency_ms.p99; }, ms, less),
        column(
            policies, [](const R& r) { return r.cold_share; }, percent, less),
    };
    HtmlRows rows;
    for (std::size_t i = 0; i < policies.size(); ++i) {
      std::vector<HtmlCell>& row = rows.emplace_back();
      row.push_back({policies[i].policy, Look::text});
      for (const auto& cells : columns) row.push_back(cells[i]);
    }
    page.section("Policies");
    page.paragraph(
        "Times are in milliseconds. A star marks the best of each column. TTFT is the time to the "
        "first token, TPOT the time between tokens, per token the latency divided by the output "
        "tokens. Satisfaction is S-LoRA's measure: it falls from 100 to 0 % as TTFT grows.");
    page.sortable_table(
        {"policy", "SLO attained", "satisfaction", "TTFT mean", "TTFT p50", "TTFT p99", "TPOT mean",
         "TPOT p99", "per token mean", "per token p99", "latency mean", "latency p99", "cold"},
        rows);
    page.section("Distributions");
    page.paragraph("Lines end at p99. Point at a name to see its line alone.");
    page.plots({cdf_of(*this, "Time to the first token (TTFT)", &PolicyResult::ttft_ms),
                cdf_of(*this, "Latency per token", &PolicyResult::token_ms),
                cdf_of(*this, "Time between tokens (TPOT)", &PolicyResult::tpot_ms),
                cdf_of(*this, "Latency", &PolicyResult::latency_ms)});
    page.section("Waiting requests over time");
    page.plots({queue_of(*this, "All engines", &QueueLength::all),
                queue_of(*this, "The engine with the longest queue", &QueueLength::longest)});
    rows.clear();
    for (const PolicyResult& one : policies) {
      rows.push_back({{one.policy, Look::text},
                      {std::to_string(one.requests), Look::figure},
                      {std::to_string(one.given_up), Look::figure},
                      {std::to_string(one.unfinished), Look::figure},
                      {std::to_string(one.loads), Look::figure},
                      {std::to_string(one.fetches), Look::figure},
                      {fmt::format("{:.1f} %", one.cached_share * 100), Look::figure},
                      {fmt::format("{:.0f}", one.tokens_per_s), Look::figure},
                      {fmt::format("{:.2f}", one.decision_us), Look::figure},
                      {fmt::format("{:.1f}", one.wall_s), Look::figure}});
    }
    page.section("The runs");
    page.sortable_table({"policy", "requests", "given up", "unfinished", "loads", "fetches",
                         "cached prompt tokens", "tokens/s", "µs per decision", "run time, s"},
                        rows);
  }
  for (const auto& [name, value] : setting) {
    page.condition(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return page;
}

}  // namespace tandem
