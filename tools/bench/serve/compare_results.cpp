#include "tools/bench/serve/compare_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/file.h"

namespace tandem {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMaxResultBytes = std::uint64_t{2} << 30;
// Less is the noise of a run.
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
  }
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
                       figure.b, change_text(figure),
                       is_same(figure)      ? ""
                       : figure.is_better() ? "better"
                                            : "worse");
  }
  return out;
}

HtmlPage Comparison::to_html(const std::string& a, const std::string& b) const {
  using Look = HtmlCell::Look;
  HtmlPage page("tandem bench serve: two results");
  page.paragraph(fmt::format("a: {}; b: {}", a, b));
  for (const std::string& one : differences) {
    page.paragraph(fmt::format("They differ in {}", one));
  }
  std::vector<std::vector<HtmlCell>> rows;
  for (const ComparedFigure& figure : figures) {
    const Look look = is_same(figure) ? Look::figure : figure.is_better() ? Look::good : Look::bad;
    rows.push_back({{figure.name, Look::text},
                    {fmt::format("{:.2f}", figure.a), Look::figure},
                    {fmt::format("{:.2f}", figure.b), Look::figure},
                    {change_text(figure), look}});
  }
  page.table({"", "a", "b", "b to a"}, rows);
  return page;
}

}  // namespace tandem
