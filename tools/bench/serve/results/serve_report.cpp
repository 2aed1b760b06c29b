#include "tools/bench/serve/results/serve_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/check.h"
#include "tools/cli/machine.h"
#include "tools/cli/version.h"

namespace tandem {
namespace {

using nlohmann::ordered_json;

// A larger delay of this program is reported, because it shows in the figures.
constexpr double kSendDelayWarningMs = 5;

std::string local_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts)};
}

std::string row(std::string_view name, std::string_view value) {
  return fmt::format("  {:<38}{:>14}\n", name, value);
}
std::string row(std::string_view name, std::int64_t value) {
  return row(name, fmt::format("{}", value));
}
std::string row(std::string_view name, double value) {
  return row(name, fmt::format("{:.2f}", value));
}

std::string spread_table(const ServeReport& report) {
  const LoadConditions& asked = report.conditions;
  std::string out = fmt::format("\n  {:<8}{:>11}{:>11}{:>11}", "ms", "mean", "median", "std");
  for (const double percent : asked.percentiles) {
    out += fmt::format("{:>11}", fmt::format("p{}", percentile_name(percent)));
  }
  out += '\n';
  for (const std::string& metric : asked.metrics) {
    const SampleSpread& spread = metric_spread(report.figures, metric);
    out += fmt::format("  {:<8}{:>11.2f}{:>11.2f}{:>11.2f}", metric, spread.mean(), spread.median(),
                       spread.deviation());
    for (const double percent : asked.percentiles) {
      out += fmt::format("{:>11.2f}", spread.percentile(percent));
    }
    out += '\n';
  }
  return out;
}

std::string cell(const SampleSpread& spread, double value) {
  return spread.count() == 0 ? "-" : fmt::format("{:.2f}", value);
}

std::string adapter_table(const ServeReport& report, std::size_t most) {
  const auto order = by_requests(report.figures);
  if (order.empty() || (order.size() == 1 && order.front()->adapter == kBaseModel)) return {};
  std::size_t width = 8;
  for (const AdapterFigures* one : order) {
    width = std::max(width, report.adapter_name(one->adapter).size() + 2);
  }
  std::string out = fmt::format("\n  {:<{}}{:>10}{:>8}{:>7}{:>12}{:>12}{:>12}{:>12}{:>10}\n",
                                "adapter", width, "answered", "failed", "cold", "first ttft",
                                "cold ttft", "warm ttft", "warm p99", "tpot");
  for (std::size_t i = 0; i < std::min(most, order.size()); ++i) {
    const AdapterFigures& one = *order[i];
    out += fmt::format("  {:<{}}{:>10}{:>8}{:>7}{:>12}{:>12}{:>12}{:>12}{:>10}\n",
                       report.adapter_name(one.adapter), width, one.completed, one.failed, one.cold,
                       one.first_ttft_ms ? fmt::format("{:.2f}", *one.first_ttft_ms) : "-",
                       cell(one.cold_ttft_ms, one.cold_ttft_ms.mean()),
                       cell(one.warm_ttft_ms, one.warm_ttft_ms.mean()),
                       cell(one.warm_ttft_ms, one.warm_ttft_ms.percentile(99)),
                       cell(one.tpot_ms, one.tpot_ms.mean()));
  }
  if (order.size() > most) {
    out += fmt::format("  and {} more, in the JSON and on the page\n", order.size() - most);
  }
  return out;
}

ordered_json spread_json(const SampleSpread& spread) {
  return {{"count", spread.count()},      {"mean", spread.mean()},
          {"median", spread.median()},    {"std", spread.deviation()},
          {"p99", spread.percentile(99)}, {"max", spread.percentile(100)}};
}

ordered_json adapters_json(const ServeReport& report) {
  ordered_json list = ordered_json::array();
  for (const AdapterFigures* one : by_requests(report.figures)) {
    list.push_back({{"name", report.adapter_name(one->adapter)},
                    {"completed", one->completed},
                    {"failed", one->failed},
                    {"cold", one->cold},
                    {"first_ttft_ms", one->first_ttft_ms ? ordered_json(*one->first_ttft_ms)
                                                         : ordered_json(nullptr)},
                    {"cold_ttft_ms", spread_json(one->cold_ttft_ms)},
                    {"warm_ttft_ms", spread_json(one->warm_ttft_ms)},
                    {"tpot_ms", spread_json(one->tpot_ms)}});
  }
  return list;
}

const char* outcome_name(RequestOutcome outcome) {
  switch (outcome) {
    case RequestOutcome::unsent:
      return "unsent";
    case RequestOutcome::ok:
      return "ok";
    case RequestOutcome::failed:
      return "failed";
    case RequestOutcome::interrupted:
      return "interrupted";
  }
  return "";
}

// Adds lists with one entry per sent request, all in the same order.
void add_details(const ServeReport& report, ordered_json& json) {
  for (const char* name :
       {"input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors", "start_times",
        "due_times", "end_times", "adapters_asked", "adapter_tiers", "outcomes"}) {
    json[name] = ordered_json::array();
  }
  for (const RequestRecord& record : report.records) {
    if (record.outcome == RequestOutcome::unsent) continue;
    const bool ok = record.outcome == RequestOutcome::ok;
    const RequestTimes times = times_of(record, report.conditions.count_from);
    ordered_json gaps_s = ordered_json::array();
    for (const float gap_ms : record.gaps_ms) gaps_s.push_back(gap_ms * 1e-3);
    json["input_lens"].push_back(record.prompt_tokens);
    json["output_lens"].push_back(ok ? record.output_tokens : 0);
    json["ttfts"].push_back(ok ? times.ttft_ms * 1e-3 : 0.0);
    json["itls"].push_back(std::move(gaps_s));
    json["generated_texts"].push_back(record.text);
    json["errors"].push_back(record.error);
    json["start_times"].push_back(record.sent_s);
    json["due_times"].push_back(record.due_s);
    json["end_times"].push_back(record.end_s);
    json["adapters_asked"].push_back(report.adapter_name(record.adapter));
    json["adapter_tiers"].push_back(record.adapter_tier);
    json["outcomes"].push_back(outcome_name(record.outcome));
  }
}

}  // namespace

std::string percentile_name(double percent) {
  return fmt::format("{:g}", percent);
}

const SampleSpread& metric_spread(const LoadFigures& figures, const std::string& metric) {
  if (metric == "ttft") return figures.ttft_ms;
  if (metric == "tpot") return figures.tpot_ms;
  if (metric == "itl") return figures.itl_ms;
  TANDEM_CHECK(metric == "e2el", "there is no metric '{}'", metric);
  return figures.e2el_ms;
}

std::vector<const AdapterFigures*> by_requests(const LoadFigures& figures) {
  std::vector<const AdapterFigures*> order;
  for (const AdapterFigures& one : figures.adapters) order.push_back(&one);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->completed + a->failed > b->completed + b->failed;
  });
  return order;
}

std::string ServeReport::adapter_name(std::int32_t number) const {
  return number == kBaseModel ? conditions.model
                              : conditions.adapters[static_cast<std::size_t>(number)];
}

std::string ServeReport::text(std::size_t most_adapters) const {
  std::string out =
      fmt::format("{}: {}, {}\n", conditions.url, conditions.model, conditions.dataset);
  out += row("requests answered", figures.completed);
  out += row("requests failed", figures.failed);
  if (figures.interrupted > 0) out += row("requests interrupted", figures.interrupted);
  if (figures.unsent > 0) out += row("requests not sent any more", figures.unsent);
  out += row("duration, s", figures.duration_s);
  out += row("input tokens", figures.input_tokens);
  out += row("output tokens", figures.output_tokens);
  out += row("requests/s", figures.request_throughput);
  if (!conditions.goodput.empty()) {
    out += row("requests/s within the objectives", figures.request_goodput);
  }
  out += row("output tokens/s", figures.output_throughput);
  out += row("output tokens/s, busiest second", figures.most_output_tokens_per_s);
  out += row("input and output tokens/s", figures.total_token_throughput);
  out += row("requests at once, at most", figures.most_concurrent);
  if (figures.completed > 0) out += spread_table(*this);
  if (figures.cold_ttft_ms.count() > 0) {
    out += fmt::format("\n  {:<8}{:>11}{:>11}{:>11}{:>11}\n", "ttft, ms", "requests", "mean",
                       "median", "p99");
    for (const auto& [name, spread] :
         {std::pair{"cold", &figures.cold_ttft_ms}, std::pair{"warm", &figures.warm_ttft_ms}}) {
      if (spread->count() == 0) continue;
      out += fmt::format("  {:<8}{:>11}{:>11.2f}{:>11.2f}{:>11.2f}\n", name, spread->count(),
                         spread->mean(), spread->median(), spread->percentile(99));
    }
  }
  out += adapter_table(*this, most_adapters);
  for (const auto& [error, count] : figures.errors) {
    out += fmt::format("\n  {} failed: {}", count, error);
  }
  if (!figures.errors.empty()) out += '\n';
  // With a concurrency limit the delay is intended, so there is no warning.
  if (conditions.max_concurrency == 0 &&
      figures.send_delay_ms.percentile(99) > kSendDelayWarningMs) {
    out += fmt::format(
        "\n  this program was behind: it sent requests {:.1f} ms late (p99). That counts in their\n"
        "  times; a faster core, a lower rate or several of these programs tell the server's own\n",
        figures.send_delay_ms.percentile(99));
  }
  for (const std::string& note : conditions.notes) out += fmt::format("\n  note: {}\n", note);
  return out;
}

ordered_json ServeReport::to_json(bool detailed) const {
  ordered_json json;
  json["date"] = local_date();
  json["backend"] = conditions.backend;
  json["endpoint_type"] = conditions.backend;
  json["label"] = conditions.label.empty() ? ordered_json(nullptr) : ordered_json(conditions.label);
  json["model_id"] = conditions.model;
  json["tokenizer_id"] =
      conditions.tokenizer.empty() ? ordered_json(nullptr) : ordered_json(conditions.tokenizer);
  json["num_prompts"] = conditions.num_prompts;
  for (const auto& [name, value] : conditions.metadata) json[name] = value;
  json["request_rate"] = std::isfinite(conditions.request_rate)
                             ? ordered_json(conditions.request_rate)
                             : ordered_json("inf");
  json["burstiness"] = conditions.burstiness;
  json["max_concurrency"] = conditions.max_concurrency == 0
                                ? ordered_json(nullptr)
                                : ordered_json(conditions.max_concurrency);
  json["duration"] = figures.duration_s;
  json["completed"] = figures.completed;
  json["failed"] = figures.failed;
  json["total_input_tokens"] = figures.input_tokens;
  json["total_output_tokens"] = figures.output_tokens;
  json["request_throughput"] = figures.request_throughput;
  json["request_goodput"] =
      conditions.goodput.empty() ? ordered_json(nullptr) : ordered_json(figures.request_goodput);
  json["output_throughput"] = figures.output_throughput;
  json["total_token_throughput"] = figures.total_token_throughput;
  json["max_output_tokens_per_s"] = figures.most_output_tokens_per_s;
  json["max_concurrent_requests"] = figures.most_concurrent;
  for (const std::string& metric : conditions.metrics) {
    const SampleSpread& spread = metric_spread(figures, metric);
    json[fmt::format("mean_{}_ms", metric)] = spread.mean();
    json[fmt::format("median_{}_ms", metric)] = spread.median();
    json[fmt::format("std_{}_ms", metric)] = spread.deviation();
    for (const double percent : conditions.percentiles) {
      json[fmt::format("p{}_{}_ms", percentile_name(percent), metric)] = spread.percentile(percent);
    }
  }
  json["interrupted"] = figures.interrupted;
  json["unsent"] = figures.unsent;
  json["times_count_from"] = conditions.count_from == CountFrom::due ? "due" : "sent";
  json["send_delay_ms"] = spread_json(figures.send_delay_ms);
  json["cold_ttft_ms"] = spread_json(figures.cold_ttft_ms);
  json["warm_ttft_ms"] = spread_json(figures.warm_ttft_ms);
  json["adapters"] = adapters_json(*this);
  json["failures"] = figures.errors;
  json["notes"] = conditions.notes;
  json["url"] = conditions.url;
  json["dataset"] = conditions.dataset;
  json["command"] = conditions.command;
  json["commit"] = build_commit();
  json["client_cpu"] = cpu_name();
  if (detailed) add_details(*this, json);
  return json;
}

}  // namespace tandem
