#include "tools/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "engine/base/check.h"
#include "tools/flags.h"
#include "tools/machine.h"
#include "tools/version.h"

namespace tandem {
namespace {

std::string figure(double value, const std::string& unit) {
  const int digits = std::abs(value) >= 100 ? 0 : std::abs(value) >= 10 ? 1 : 3;
  return fmt::format("{:.{}f}{}{}", value, digits, unit.empty() ? "" : " ", unit);
}

// The width of a column of texts: that of the longest so far, with a space after it.
std::size_t column(std::size_t width, const std::string& text) {
  return std::max(width, text.size() + 1);
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, length};
}

nlohmann::json machine_json() {
  return {{"cpu", cpu_name()},
          {"cores_usable", usable_cpus().size()},
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

double Samples::median() const {
  return percentile(0.5);
}

void add_report_settings(SettingsTable& table, ReportSettings& settings) {
  table.group("Report");
  table.add(settings.json, "json", "write the figures, samples and machine to this file")
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
  return std::all_of(bars_.begin(), bars_.end(), [](const Bar& bar) { return bar.ok(); });
}

std::string BenchReport::table() const {
  std::string out = fmt::format("{}: commit {}, {}, {} usable cores\n", command_, build_commit(),
                                cpu_name(), usable_cpus().size());
  // Facts and samples share their first column.
  std::size_t names = 44;
  for (const auto& [name, value] : facts_) names = column(names, name);
  for (const Samples& samples : samples_) names = column(names, samples.name);
  for (const auto& [name, value] : facts_) {
    out += fmt::format("  {:<{}}{}\n", name, names,
                       value.is_string() ? value.get<std::string>() : value.dump());
  }
  if (!samples_.empty()) {
    out += fmt::format("\n  {:<{}}{:>12}{:>12}{:>12}  samples\n", "measured", names, "median",
                       "p99", "min");
  }
  for (const Samples& samples : samples_) {
    out += fmt::format("  {:<{}}{:>12}{:>12}{:>12}  {}\n", samples.name, names,
                       figure(samples.median(), samples.unit),
                       figure(samples.percentile(0.99), samples.unit),
                       figure(samples.percentile(0), samples.unit), samples.values.size());
  }
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
                       figure(bar.value, bar.unit),
                       fmt::format("{} {}", bar.must == Must::be_at_least ? ">=" : "<=",
                                   figure(bar.bar, bar.unit)),
                       bar.ok() ? "met" : "MISSED");
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
                    {"ok", bar.ok()}});
  }
  nlohmann::json samples = nlohmann::json::array();
  for (const Samples& one : samples_) {
    samples.push_back({{"name", one.name},
                       {"unit", one.unit},
                       {"count", one.values.size()},
                       {"median", one.median()},
                       {"p99", one.percentile(0.99)},
                       {"min", one.percentile(0)},
                       {"max", one.percentile(1)},
                       {"values", one.values}});
  }
  nlohmann::json facts = nlohmann::json::object();
  for (const auto& [name, value] : facts_) facts[name] = value;
  return {{"bench", name_},
          {"command", command_},
          {"commit", build_commit()},
          {"time", utc_now()},
          {"machine", machine_json()},
          {"facts", facts},
          {"samples", samples},
          {"bars", bars}};
}

Result<int> BenchReport::finish(const ReportSettings& settings) const {
  fmt::print("{}", table());
  if (!settings.json.empty()) {
    errno = 0;
    std::ofstream file(settings.json);
    file << to_json().dump(2) << '\n';
    file.close();
    if (!file) return errno_status("json: " + settings.json, errno);
    fmt::print("\nwritten: {}\n", settings.json);
  }
  return settings.check && !all_ok() ? kExitFailure : kExitOk;
}

}  // namespace tandem
