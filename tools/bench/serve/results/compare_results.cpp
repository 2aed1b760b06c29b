#include "tools/bench/serve/results/compare_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/file/file.h"
#include "tools/bench/serve/results/serve_report.h"

namespace tandem {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMaxResultBytes = std::uint64_t{2} << 30;
// Smaller relative differences count as noise.
constexpr double kSame = 0.02;

constexpr std::array<std::string_view, 6> kMore = {
    "request_throughput",     "request_goodput",         "output_throughput",
    "total_token_throughput", "max_output_tokens_per_s", "completed"};
constexpr std::array<std::string_view, 8> kAsked = {
    "model_id",        "backend",    "num_prompts", "request_rate",
    "max_concurrency", "burstiness", "dataset",     "times_count_from"};

void add_run(const std::string& before, const ordered_json& a, const ordered_json& b,
             Comparison& comparison) {
  for (const auto& [name, value] : a.items()) {
    const auto other = b.find(name);
    if (!value.is_number() || other == b.end() || !other->is_number()) continue;
    const bool more = std::ranges::find(kMore, name) != kMore.end();
    if (!more && !name.ends_with("_ms") && name != "failed") continue;
    comparison.figures.push_back({before + name, value.get<double>(), other->get<double>(), more});
  }
}

std::string short_text(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string change_text(const ComparedFigure& figure) {
  return figure.a == 0 ? "" : fmt::format("{:+.1f} %", 100 * figure.change());
}

bool is_same(const ComparedFigure& figure) {
  return figure.a == figure.b || (figure.a != 0 && std::abs(figure.change()) < kSame);
}

// "better", "worse", or an empty text if the figures are the same.
const char* verdict(const ComparedFigure& figure) {
  return is_same(figure) ? "" : figure.is_better() ? "better" : "worse";
}

ResultOrigin origin_of(const ordered_json& result) {
  // A sweep's origin is that of its first run.
  const bool is_sweep = result.contains("points") && !result["points"].empty();
  const ordered_json& run = is_sweep ? result["points"].front() : result;
  ResultOrigin origin;
  for (const char* name : {"command", "commit", "client_cpu", "date", "url"}) {
    const auto found = run.find(name);
    if (found != run.end() && found->is_string()) origin.emplace_back(name, short_text(*found));
  }
  return origin;
}

}  // namespace

Result<ordered_json> read_result(const std::string& path) {
  TANDEM_ASSIGN(const std::string text, read_text_file(path, kMaxResultBytes));
  ordered_json parsed = ordered_json::parse(text, nullptr, false);
  if (!parsed.is_object()) return invalid("compare: {} is no JSON object", path);
  return parsed;
}

Result<Comparison> compare_results(const ordered_json& a, const ordered_json& b) {
  Comparison comparison;
  if (a.contains("sweep") != b.contains("sweep")) {
    return invalid("compare: one is a sweep and the other is a run");
  }
  if (a.contains("sweep")) {
    for (const ordered_json* one : {&a, &b}) {
      if (!one->contains("points") || !(*one)["points"].is_array()) {
        return invalid("compare: a sweep has no points");
      }
    }
    if (a["sweep"] != b["sweep"]) return invalid("compare: the sweeps are over different things");
    if (a.value("knee", ordered_json()).is_number() &&
        b.value("knee", ordered_json()).is_number()) {
      comparison.figures.push_back(
          {"knee", a["knee"].get<double>(), b["knee"].get<double>(), true});
    }
    for (const ordered_json& one : a["points"]) {
      for (const ordered_json& other : b["points"]) {
        if (one.is_object() && other.is_object() && one.contains("value") &&
            one["value"].is_number() && one["value"] == other.value("value", ordered_json())) {
          add_run(fmt::format("{:g}: ", one["value"].get<double>()), one, other, comparison);
        }
      }
    }
  } else {
    add_run("", a, b, comparison);
    comparison.a_times = detailed_times(a);
    comparison.b_times = detailed_times(b);
  }
  comparison.a_origin = origin_of(a);
  comparison.b_origin = origin_of(b);
  if (comparison.figures.empty()) return invalid("compare: they have no figure in common");
  for (const std::string_view name : kAsked) {
    const ordered_json one = a.value(std::string(name), ordered_json());
    const ordered_json other = b.value(std::string(name), ordered_json());
    if (one.is_null() || other.is_null() || one == other) continue;
    comparison.differences.push_back(
        fmt::format("{}: {}, {}", name, short_text(one), short_text(other)));
  }
  return comparison;
}

std::string Comparison::text(const std::string& a, const std::string& b) const {
  std::string out = fmt::format("a: {}\nb: {}\n", a, b);
  for (const std::string& one : differences) out += fmt::format("they differ in {}\n", one);
  std::size_t width = 8;
  for (const ComparedFigure& figure : figures) width = std::max(width, figure.name.size() + 2);
  out += fmt::format("\n  {:<{}}{:>14}{:>14}{:>11}\n", "", width, "a", "b", "b to a");
  for (const ComparedFigure& figure : figures) {
    out += fmt::format("  {:<{}}{:>14.2f}{:>14.2f}{:>11}  {}\n", figure.name, width, figure.a,
                       figure.b, change_text(figure), verdict(figure));
  }
  return out;
}

std::string Comparison::why_no_distributions() const {
  if (a_times && b_times) return {};
  return fmt::format(
      "No distributions: {} no times of single requests. Runs that are saved with "
      "--save-detailed have them; sweeps have none.",
      a_times   ? "b has"
      : b_times ? "a has"
                : "a and b have");
}

HtmlPage Comparison::to_html(const std::string& a, const std::string& b) const {
  using Look = HtmlCell::Look;
  HtmlPage page("tandem bench serve: two results",
                origin_here(fmt::format("tandem bench serve --compare {} {}", a, b)));
  const auto count = [&](const char* what) {
    return std::ranges::count_if(
        figures, [&](const auto& one) { return verdict(one) == std::string_view(what); });
  };
  page.summary({{"b is better in", fmt::format("{}", count("better")), "figures"},
                {"b is worse in", fmt::format("{}", count("worse")), "figures"},
                {"the same", fmt::format("{}", count("")), "within 2 %"}});
  page.paragraph(fmt::format("a: {}; b: {}", a, b));
  for (const std::string& one : differences) {
    page.paragraph(fmt::format("They differ in {}", one));
  }
  page.section("Distributions");
  if (const std::string why = why_no_distributions(); !why.empty()) {
    page.paragraph(why);
  } else {
    std::vector<Plot> plots;
    for (const auto& [metric, times] :
         {std::pair{"ttft", &DetailedTimes::ttft}, std::pair{"tpot", &DetailedTimes::tpot},
          std::pair{"itl", &DetailedTimes::itl}, std::pair{"e2el", &DetailedTimes::e2el}}) {
      plots.push_back(
          cdf_plot(metric_title(metric), "ms",
                   {cdf_series("a", (*a_times).*times), cdf_series("b", (*b_times).*times)}));
    }
    page.plots(plots);
  }
  HtmlRows rows;
  for (const ComparedFigure& figure : figures) {
    const Look look = is_same(figure) ? Look::text : figure.is_better() ? Look::good : Look::bad;
    rows.push_back({{figure.name, Look::text},
                    {fmt::format("{:.2f}", figure.a), Look::figure},
                    {fmt::format("{:.2f}", figure.b), Look::figure},
                    {change_text(figure), Look::figure},
                    {verdict(figure), look}});
  }
  page.section("Figures");
  page.sortable_table({"figure", "a", "b", "b to a", "verdict"}, rows);
  for (const auto& [name, origin] : {std::pair{"a", &a_origin}, std::pair{"b", &b_origin}}) {
    for (const auto& [what, value] : *origin)
      page.condition(fmt::format("{}: {}", name, what), value);
  }
  return page;
}

}  // namespace tandem
