// Plots for reports, drawn as SVG that needs only HtmlPage's style sheet.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem {

struct PlotSeries {
  enum class Mark { line, dots };

  std::string name;
  std::vector<std::pair<double, double>> points;  // (x, y); points that are not finite are left out
  Mark mark = Mark::line;
  bool stands_out = false;  // drawn thick, above the others
};

struct Plot {
  std::string title;
  std::string x_label;  // with its unit
  std::string y_label;
  std::vector<PlotSeries> series;
  bool log_x = false;  // points at or below zero are left out
  bool log_y = false;
  bool y_from_zero = false;
  std::string note;             // a sentence below, may be empty
  bool of_percentiles = false;  // y is a share from 0 to 1, labelled p50, p90, ...
};

// Returns the distribution of `values` as a staircase: for each value the share of values <= it.
PlotSeries cdf_series(std::string name, std::vector<double> values);
// One staircase per series; the x axis is logarithmic if the values span more than a factor of 20.
Plot cdf_plot(std::string title, std::string x_label, std::vector<PlotSeries> cdfs);

// Returns <figure> ... </figure> with the drawing, a legend if there are several series, and the
// note. Series differ in colour and in dash or shape; if a plot has many lines, they have shapes,
// too. Pointing at a name shows only that series. A plot without any point says so.
std::string plot_html(const Plot& plot);

}  // namespace tandem
