// One axis of a plot: what of the data it shows, where that is on the drawing, and its labels.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace tandem {

class PlotAxis {
 public:
  // `from` and `to`: where on the drawing it begins and ends.
  PlotAxis(bool logarithmic, double from, double to)
      : logarithmic_(logarithmic), from_(from), to_(to) {}

  bool shows(double value) const;  // finite, and above zero if logarithmic
  void include(double value);      // that it shows
  bool empty() const { return low_ > high_; }
  // Before place() and ticks(), if not empty: a range of some width, a little wider than the data.
  void finish(bool from_zero);

  double place(double value) const;
  std::vector<double> ticks() const;

 private:
  bool logarithmic_;
  double from_, to_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

// Where an axis from `low` to `high` is labelled: at 1, 2 and 5 times powers of ten, about `count`
// times; on a logarithmic axis at powers of ten and, if they are few, at 2 and 5 times these.
std::vector<double> axis_ticks(double low, double high, bool logarithmic, int count = 6);

std::string tick_text(double value);  // "0.5", "200", "40k", "1.5M"

}  // namespace tandem
