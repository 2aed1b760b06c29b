#include "tools/bench/common/sample_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {
namespace {

constexpr std::size_t kMostLines = 6;  // of one plot
constexpr double kOneAxis = 10;        // medians further apart make curves look vertical

struct Group {
  std::vector<const Samples*> samples;
  double low = 0, high = 0;  // of medians

  bool takes(const Samples& one) const {
    if (samples.empty()) return true;
    const double median = one.median();
    return samples.size() < kMostLines && samples.front()->unit == one.unit &&
           std::max(high, median) <= kOneAxis * std::min(low, median);
  }
  void add(const Samples& one) {
    const double median = one.median();
    low = samples.empty() ? median : std::min(low, median);
    high = samples.empty() ? median : std::max(high, median);
    samples.push_back(&one);
  }
};

// Returns the beginning that all names share, in whole words: "decode step, batch" for "decode
// step, batch 1" and "decode step, batch 8". May be empty.
std::string common_beginning(const std::vector<const Samples*>& samples) {
  std::string_view common = samples.front()->name;
  if (samples.size() == 1) return std::string(common);
  for (const Samples* one : samples) {
    std::size_t same = 0;
    while (same < std::min(common.size(), one->name.size()) && common[same] == one->name[same]) {
      ++same;
    }
    common = common.substr(0, same);
  }
  const std::size_t space = common.rfind(' ');
  common = common.substr(0, space == std::string_view::npos ? 0 : space);
  while (!common.empty() &&
         std::string_view(" ,:(").find(common.back()) != std::string_view::npos) {
    common.remove_suffix(1);
  }
  return std::string(common);
}

Plot plot_of(const Group& group) {
  std::vector<PlotSeries> series;
  for (const Samples* one : group.samples) series.push_back(cdf_series(one->name, one->values));
  const std::string& unit = group.samples.front()->unit;
  std::string title = common_beginning(group.samples);
  if (title.empty()) title = unit.empty() ? "Ratios" : fmt::format("In {}", unit);
  return cdf_plot(std::move(title), unit.empty() ? "ratio" : unit, std::move(series));
}

}  // namespace

std::vector<Plot> sample_plots(const std::vector<Samples>& samples) {
  std::vector<Plot> plots;
  Group group;
  for (const Samples& one : samples) {
    if (one.values.size() < 2) continue;
    if (!group.takes(one)) plots.push_back(plot_of(std::exchange(group, {})));
    group.add(one);
  }
  if (!group.samples.empty()) plots.push_back(plot_of(group));
  return plots;
}

}  // namespace tandem
