// One axis of a plot: its range of values, their positions on the drawing, and its labels.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace tandem {

class PlotAxis {
 public:
  // `from` and `to`: positions on the drawing where the axis begins and ends.
  PlotAxis(bool logarithmic, double from, double to)
      : logarithmic_(logarithmic), from_(from), to_(to) {}

  bool shows(double value) const;  // finite, and above zero if logarithmic
  void include(double value);      // widens the range to this value, if shows(value)
  bool empty() const { return low_ > high_; }
  // Call it before place() and ticks(). Sets a range a little wider than the data, never empty.
  void finish(bool from_zero);

  double place(double value) const;
  std::vector<double> ticks() const;

 private:
  bool logarithmic_;
  double from_, to_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

// Returns the labelled values from `low` to `high`: about `count` values that are 1, 2 or 5 times a
// power of ten; on a logarithmic axis powers of ten and, if these are few, 2 and 5 times them.
std::vector<double> axis_ticks(double low, double high, bool logarithmic, int count = 6);

std::string tick_text(double value);  // "0.5", "200", "40k", "1.5M"

}  // namespace tandem
