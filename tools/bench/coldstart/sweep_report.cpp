#include "tools/bench/coldstart/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace tandem {
namespace {

double mean_ms(const std::vector<double>& seconds) {
  return Samples{"", "", seconds}.mean() * 1e3;
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

// Of those that a cold adapter costs anything, but `planned`.
Best best_other(const SweepCell& cell, const std::vector<AdapterMode>& modes) {
  Best best;
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (keeps_all(modes[i]) || modes[i] == AdapterMode::planned) continue;
    const double ms = mean_ms(cell.ttfts[i]);
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
  std::size_t compared = 0, lost = 0;
  for (const SweepCell& cell : cells) {
    const std::string title = fmt::format(
        "Mean TTFT of cold adapters asked for at once, {}; milliseconds", place_of(cell));
    ReportTable& table = tables[title];
    if (table.title.empty()) {
      titles.push_back(title);
      table.title = title;
      table.head = {"adapters x prompt"};
      for (const AdapterMode mode : modes) table.head.emplace_back(to_string(mode));
      for (const char* name : {"link floor", "best other", "planned / it"}) {
        table.head.emplace_back(name);
      }
    }
    std::vector<nlohmann::json>& row = table.rows.emplace_back();
    row.emplace_back(cell.burst.name());
    for (const std::vector<double>& ttfts : cell.ttfts) row.emplace_back(mean_ms(ttfts));
    row.emplace_back(cell.link_floor_s * 1e3);
    const Best best = best_other(cell, modes);
    row.emplace_back(best.mode);
    if (best.mode.empty() || planned == std::ssize(modes)) {
      row.emplace_back("");
      continue;
    }
    const double ratio = mean_ms(cell.ttfts[static_cast<std::size_t>(planned)]) / best.ms;
    row.emplace_back(ratio);
    ++compared;
    lost += ratio > kBar ? 1 : 0;
    if (ratio <= worst) continue;
    worst = ratio;
    where = fmt::format("{}, {}", cell.burst.name(), place_of(cell));
  }
  for (const std::string& title : titles) report.add(std::move(tables[title]));
  if (compared == 0) return;
  report.fact("cells of the sweep",
              fmt::format("{}, in {} planned is behind by more than 5 %", compared, lost));
  report.add({"N1", fmt::format("planned over the best other mode, the worst cell: {}", where),
              worst, "", Must::be_at_most, kBar});
}

}  // namespace tandem
