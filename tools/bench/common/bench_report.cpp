#include "tools/bench/common/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "base/check.h"
#include "base/memory/memory_info.h"
#include "base/threads/thread_cpus.h"
#include "tools/bench/common/sample_plots.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/machine.h"
#include "tools/cli/version.h"

namespace tandem {
namespace {

constexpr std::size_t kMostSummed = 6;

std::string figure(double value, const std::string& unit) {
  constexpr double kLong = 1e9;  // a ratio to nearly nothing may have 300 digits
  if (std::abs(value) >= kLong)
    return fmt::format("{:.3g}{}{}", value, unit.empty() ? "" : " ", unit);
  const int digits = std::abs(value) >= 100 ? 0 : std::abs(value) >= 10 ? 1 : 3;
  return fmt::format("{:.{}f}{}{}", value, digits, unit.empty() ? "" : " ", unit);
}

std::string bar_text(const Bar& bar) {
  return fmt::format("{} {}",
                     bar.must == Must::be_at_least ? ">=" : "<=", figure(bar.bar, bar.unit));
}

const char* verdict(const Bar& bar) {
  if (!bar.judged) return "not judged";
  return bar.ok() ? "met" : "MISSED";
}

std::string fact_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Returns the wider of a column's width and the width of `text` with a space after it.
std::size_t column(std::size_t width, const std::string& text) {
  return std::max(width, text.size() + 1);
}

std::string cell_text(const nlohmann::json& cell) {
  return cell.is_number_float() ? figure(cell.get<double>(), "") : fact_text(cell);
}

// Aligns the first column left and the others right.
std::string table_text(const ReportTable& table) {
  std::vector<std::size_t> widths;
  for (const std::string& head : table.head) widths.push_back(head.size() + 2);
  for (const auto& row : table.rows) {
    TANDEM_CHECK(row.size() == widths.size(), "{}: {} cells", table.title, row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], cell_text(row[i]).size() + 2);
    }
  }
  std::string out = fmt::format("\n  {}\n  ", table.title);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    out += i == 0 ? fmt::format("{:<{}}", table.head[i], widths[i])
                  : fmt::format("{:>{}}", table.head[i], widths[i]);
  }
  for (const auto& row : table.rows) {
    out += "\n  ";
    for (std::size_t i = 0; i < widths.size(); ++i) {
      out += i == 0 ? fmt::format("{:<{}}", cell_text(row[i]), widths[i])
                    : fmt::format("{:>{}}", cell_text(row[i]), widths[i]);
    }
  }
  return out + "\n";
}

nlohmann::json machine_json() {
  return {{"cpu", cpu_name()},
          {"cores_usable", cpus_of_thread().size()},
          {"memory_available_bytes", available_memory()}};
}

}  // namespace

double Samples::percentile(double share) const {
  TANDEM_CHECK(!values.empty(), "no samples of {}", name);
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  const auto index = static_cast<std::size_t>(std::max(1.0, rank)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

double Samples::mean() const {
  TANDEM_CHECK(!values.empty(), "no samples of {}", name);
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Samples::median() const {
  return percentile(0.5);
}

void add_report_settings(SettingsTable& table, ReportSettings& settings) {
  table.group("Report");
  table.add(settings.json, "json", "write the figures, samples and machine to this file")
      .meta("FILE")
      .flag_only();
  table.add(settings.html, "html", "write a page with figures and plots to this file")
      .meta("FILE")
      .flag_only();
  table.add(settings.check, "check", "exit with status 1 if a bar is missed").flag_only();
}

BenchReport::BenchReport(std::string name, std::string command)
    : name_(std::move(name)), command_(std::move(command)) {}

void BenchReport::fact(std::string name, nlohmann::json value) {
  facts_.emplace_back(std::move(name), std::move(value));
}

bool BenchReport::all_ok() const {
  return std::ranges::all_of(bars_, [](const Bar& bar) { return bar.ok() || !bar.judged; });
}

std::string BenchReport::table() const {
  std::string out = fmt::format("{}: commit {}, {}, {} usable cores\n", command_, build_commit(),
                                cpu_name(), cpus_of_thread().size());
  // Facts and samples share their first column, so its width is computed from both.
  std::size_t names = 44;
  for (const auto& [name, value] : facts_) names = column(names, name);
  for (const Samples& samples : samples_) names = column(names, samples.name);
  for (const auto& [name, value] : facts_) {
    out += fmt::format("  {:<{}}{}\n", name, names, fact_text(value));
  }
  if (!samples_.empty()) {
    out += fmt::format("\n  {:<{}}{:>12}{:>12}{:>12}{:>12}  samples\n", "measured", names, "mean",
                       "median", "p99", "min");
  }
  for (const Samples& samples : samples_) {
    out += fmt::format("  {:<{}}{:>12}{:>12}{:>12}{:>12}  {}\n", samples.name, names,
                       figure(samples.mean(), samples.unit), figure(samples.median(), samples.unit),
                       figure(samples.percentile(0.99), samples.unit),
                       figure(samples.percentile(0), samples.unit), samples.values.size());
  }
  for (const ReportTable& one : tables_) out += table_text(one);
  if (bars_.empty()) return out;
  std::size_t ids = 4;
  std::size_t whats = 66;
  for (const Bar& bar : bars_) {
    ids = column(ids, bar.id);
    whats = column(whats, bar.what);
  }
  out += fmt::format("\n  {:<{}}{:<{}}{:>12}{:>15}  verdict\n", "id", ids, "figure", whats,
                     "measured", "bar");
  for (const Bar& bar : bars_) {
    out += fmt::format("  {:<{}}{:<{}}{:>12}{:>15}  {}\n", bar.id, ids, bar.what, whats,
                       figure(bar.value, bar.unit), bar_text(bar), verdict(bar));
  }
  return out;
}

nlohmann::json BenchReport::to_json() const {
  nlohmann::json bars = nlohmann::json::array();
  for (const Bar& bar : bars_) {
    bars.push_back({{"id", bar.id},
                    {"what", bar.what},
                    {"value", bar.value},
                    {"unit", bar.unit},
                    {"must", bar.must == Must::be_at_least ? "be at least" : "be at most"},
                    {"bar", bar.bar},
                    {"judged", bar.judged},
                    {"ok", bar.ok()}});
  }
  nlohmann::json samples = nlohmann::json::array();
  for (const Samples& one : samples_) {
    samples.push_back({{"name", one.name},
                       {"unit", one.unit},
                       {"count", one.values.size()},
                       {"mean", one.mean()},
                       {"median", one.median()},
                       {"p99", one.percentile(0.99)},
                       {"min", one.percentile(0)},
                       {"max", one.percentile(1)},
                       {"values", one.values}});
  }
  nlohmann::json tables = nlohmann::json::array();
  for (const ReportTable& one : tables_) {
    tables.push_back({{"title", one.title}, {"head", one.head}, {"rows", one.rows}});
  }
  nlohmann::json facts = nlohmann::json::object();
  for (const auto& [name, value] : facts_) facts[name] = value;
  return {{"bench", name_},     {"command", command_},       {"commit", build_commit()},
          {"time", utc_now()},  {"machine", machine_json()}, {"facts", facts},
          {"samples", samples}, {"tables", tables},          {"bars", bars}};
}

HtmlPage BenchReport::to_html() const {
  using Look = HtmlCell::Look;
  HtmlPage page(fmt::format("tandem bench {}", name_), origin_here(command_));
  page.summary(summary());
  HtmlRows rows;
  if (!bars_.empty()) {
    for (const Bar& bar : bars_) {
      // The verdict comes in an early column, where a narrow screen shows it, too.
      rows.push_back({{bar.id, Look::text},
                      {verdict(bar), !bar.judged ? Look::text
                                     : bar.ok()  ? Look::good
                                                 : Look::bad},
                      {bar.what, Look::text},
                      {figure(bar.value, bar.unit), Look::figure},
                      {bar_text(bar), Look::figure}});
    }
    page.section("Bars");
    page.table({"id", "verdict", "figure", "measured", "bar"}, rows);
  }
  // A benchmark that draws its own plots shows the distribution of its samples in them.
  const std::vector<Plot> plots = plots_.empty() ? sample_plots(samples_) : plots_;
  if (!plots.empty()) {
    page.section(plots_.empty() ? "Distributions" : "Plots");
    page.plots(plots);
  }
  for (const ReportTable& one : tables_) {
    rows.clear();
    for (const auto& cells : one.rows) {
      std::vector<HtmlCell>& row = rows.emplace_back();
      for (const nlohmann::json& cell : cells) {
        row.push_back({cell_text(cell), cell.is_number() ? Look::figure : Look::text});
      }
    }
    page.section(one.title);
    page.sortable_table(one.head, rows);
  }
  if (!samples_.empty()) {
    rows.clear();
    for (const Samples& samples : samples_) {
      std::vector<HtmlCell>& row = rows.emplace_back();
      row.push_back({samples.name, Look::text});
      for (const double value : {samples.mean(), samples.median(), samples.percentile(0.99),
                                 samples.percentile(0), samples.percentile(1)}) {
        row.push_back({figure(value, samples.unit), Look::figure});
      }
      row.push_back({std::to_string(samples.values.size()), Look::figure});
    }
    page.section("Measured");
    page.table({"", "mean", "median", "p99", "min", "max", "samples"}, rows);
  }
  for (const auto& [name, value] : facts_) page.condition(name, fact_text(value));
  return page;
}

std::vector<HtmlFigure> BenchReport::summary() const {
  using Look = HtmlCell::Look;
  std::vector<HtmlFigure> figures;
  const auto judged = std::ranges::count_if(bars_, &Bar::judged);
  if (judged > 0) {
    const auto met = std::ranges::count_if(bars_, [](const Bar& b) { return b.judged && b.ok(); });
    figures.push_back(
        {"bars met", fmt::format("{} of {}", met, judged), "", all_ok() ? Look::good : Look::bad});
  }
  for (const Samples& one : samples_) {
    if (figures.size() == kMostSummed) break;
    figures.push_back(
        {one.name, figure(one.median(), one.unit), fmt::format("median of {}", one.values.size())});
  }
  return figures;
}

Result<int> BenchReport::finish(const ReportSettings& settings) const {
  fmt::print("{}", table());
  if (!settings.json.empty()) {
    TANDEM_TRY(write_output("json", settings.json, to_json().dump(2) + '\n'));
    fmt::print("\nwritten: {}\n", settings.json);
  }
  if (!settings.html.empty()) {
    TANDEM_TRY(write_output("html", settings.html, to_html().text()));
    fmt::print("\nwritten: {}\n", settings.html);
  }
  return settings.check && !all_ok() ? kExitFailure : kExitOk;
}

}  // namespace tandem
