#include "tools/bench/coldstart/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace tandem {
namespace {

// Mean TTFT over all rounds.
double mean_ms(const SweepCell& cell, std::size_t mode) {
  return cell.mean_ttft_s(mode) * 1e3;
}

// The median of the rounds' means (the lower of two in the middle), which a single disturbed burst
// does not change.
double median_ms(const SweepCell& cell, std::size_t mode) {
  const std::vector<double>& all = cell.ttfts[mode];
  const auto each = static_cast<std::ptrdiff_t>(cell.burst.adapters);
  Samples rounds;
  for (auto first = all.begin(); all.end() - first >= each; first += each) {
    rounds.values.push_back(Samples{"", "", {first, first + each}}.mean());
  }
  return rounds.median() * 1e3;
}

// "10 GB/s link, on disk"
std::string place_of(const SweepCell& cell) {
  return fmt::format(
      "{}, {}", cell.link_gbps > 0 ? fmt::format("{:g} GB/s link", cell.link_gbps) : "native link",
      cell.on_disk ? "on disk" : "in host memory");
}

struct Best {
  std::string mode;
  double ms = std::numeric_limits<double>::infinity();
};

// The fastest mode except `planned` and those without cold starts; `typical` is mean_ms or
// median_ms.
Best best_other(const SweepCell& cell, const std::vector<AdapterMode>& modes, auto typical) {
  Best best;
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (keeps_all(modes[i]) || modes[i] == AdapterMode::planned) continue;
    const double ms = typical(cell, i);
    if (ms < best.ms) best = {std::string(to_string(modes[i])), ms};
  }
  return best;
}

}  // namespace

void report_sweep(const std::vector<SweepCell>& cells, const std::vector<AdapterMode>& modes,
                  BenchReport& report) {
  constexpr double kBar = 1.05;
  const auto planned = std::ranges::find(modes, AdapterMode::planned) - modes.begin();
  std::map<std::string, ReportTable> tables;
  std::vector<std::string> titles;
  double worst = 0;
  std::string where;
  std::size_t compared = 0, lost = 0, lost_by_medians = 0, lost_alike = 0;
  for (const SweepCell& cell : cells) {
    const std::string title = fmt::format(
        "Mean TTFT of cold adapters asked for at once, {}; milliseconds", place_of(cell));
    ReportTable& table = tables[title];
    if (table.title.empty()) {
      titles.push_back(title);
      table.title = title;
      table.head = {"adapters x prompt"};
      for (const AdapterMode mode : modes) table.head.emplace_back(to_string(mode));
      for (const char* name :
           {"link floor", "best other", "planned / it", "by medians", "CPU layers"}) {
        table.head.emplace_back(name);
      }
    }
    std::vector<nlohmann::json>& row = table.rows.emplace_back();
    row.emplace_back(cell.burst.name());
    for (std::size_t i = 0; i < cell.ttfts.size(); ++i) row.emplace_back(mean_ms(cell, i));
    row.emplace_back(cell.link_floor_s * 1e3);
    const Best best = best_other(cell, modes, mean_ms);
    row.emplace_back(best.mode);
    if (best.mode.empty() || planned == std::ssize(modes)) {
      row.insert(row.end(), {"", "", ""});
      continue;
    }
    const auto which = static_cast<std::size_t>(planned);
    const double ratio = mean_ms(cell, which) / best.ms;
    const double by_medians = median_ms(cell, which) / best_other(cell, modes, median_ms).ms;
    row.emplace_back(ratio);
    row.emplace_back(by_medians);
    row.emplace_back(cell.planned_cpu_layers);
    ++compared;
    lost += ratio > kBar ? 1 : 0;
    lost_by_medians += by_medians > kBar ? 1 : 0;
    lost_alike += ratio > kBar && cell.planned_cpu_layers == 0 ? 1 : 0;
    if (ratio <= worst) continue;
    worst = ratio;
    where = fmt::format("{}, {}", cell.burst.name(), place_of(cell));
  }
  for (const std::string& title : titles) report.add(std::move(tables[title]));
  if (compared == 0) return;
  report.fact(
      "cells of the sweep",
      fmt::format("{}, in {} planned is behind by more than 5 % (in {} of them workers had nothing "
                  "to do), by medians of bursts in {}",
                  compared, lost, lost_alike, lost_by_medians));
  report.add({"N1", fmt::format("planned over the best other mode, the worst cell: {}", where),
              worst, "", Must::be_at_most, kBar});
}

}  // namespace tandem
