#include "tools/report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "tools/report/html_page.h"
#include "tools/report/plot_axis.h"

namespace tandem {
namespace {

// Sizes of the drawing in its own units. One unit is a pixel if three plots fit side by side on a
// screen, and a little less on a phone.
constexpr double kWidth = 440;
constexpr double kHeight = 290;
constexpr double kLeft = 56;
constexpr double kRight = 12;
constexpr double kTop = 8;
constexpr double kBottom = 42;
constexpr double kNoOverlap = 13;  // minimum distance between the base lines of labels
// Number of colours, of dashes and of shapes; the page's style sheet has .c0 .. .c8, .l0 .. .l8.
constexpr std::size_t kStyles = 9;
// Paths of the shapes, relative to their centre.
constexpr std::array<std::string_view, kStyles> kShapes = {
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",  // circle
    "m-3-3h6v6h-6z",                       // square
    "m0-4l4 7h-8z",                        // triangle
    "m0-4l4 4l-4 4l-4-4z",                 // diamond
    "m-4 0h8m-4-4v8",                      // upright cross
    "m-3-3l6 6m0-6l-6 6",                  // cross
    "m0 4l4-7h-8z",                        // triangle on its tip
    "m-4-1.5h8v3h-8z",                     // bar
    "m-1.5-4h3v8h-3z",                     // upright bar
};
// A staircase with more steps would look the same and make pages of megabytes.
constexpr std::size_t kMostSteps = 400;

struct Tick {
  double at = 0;
  std::string text;
};

std::vector<Tick> ticks_of(const PlotAxis& axis) {
  std::vector<Tick> ticks;
  for (const double value : axis.ticks()) ticks.push_back({axis.place(value), tick_text(value)});
  return ticks;
}

std::vector<Tick> percentile_ticks(const PlotAxis& axis) {
  std::vector<Tick> ticks;
  for (const int percent : {25, 50, 75, 90, 99}) {
    ticks.push_back({axis.place(percent / 100.0), fmt::format("p{}", percent)});
  }
  return ticks;
}

std::string grid(const Plot& plot, const PlotAxis& x, const PlotAxis& y) {
  std::string out;
  const double bottom = kHeight - kBottom;
  double free_from = 0;  // where the last label ends, so that the next one does not overlap it
  for (const Tick& tick : ticks_of(x)) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>",
        tick.at, kTop, bottom);
    const double half = 4.0 * static_cast<double>(tick.text.size());
    if (tick.at - half < free_from) continue;
    free_from = tick.at + half;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                       tick.at, bottom + 15, tick.text);
  }
  double last = kHeight;
  for (const Tick& tick : plot.of_percentiles ? percentile_ticks(y) : ticks_of(y)) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\"/>", kLeft,
        kWidth - kRight, tick.at);
    if (last - tick.at < kNoOverlap) continue;
    last = tick.at;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 5,
                       tick.at + 4, tick.text);
  }
  out += fmt::format(
      "<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
      "<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{3:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n",
      kLeft, kWidth - kRight, bottom, kTop);
  out += fmt::format(
      "<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 7, html_escape(plot.x_label));
  out += fmt::format(
      "<text class=\"label\" transform=\"translate(13 {:.1f}) rotate(-90)\" "
      "text-anchor=\"middle\">{}</text>\n",
      (kTop + bottom) / 2, html_escape(plot.y_label));
  return out;
}

// Returns the dash or shape of the n-th series. Its pair with the colour is unique among the first
// 81.
std::size_t second_style(std::size_t number) {
  return (number + number / kStyles) % kStyles;
}

std::string_view shape_of(std::size_t style) {
  return kShapes[second_style(style)];
}

// The style of each series. A series that stands out has the first style, a solid line in the text
// colour, wherever it is in the list.
class SeriesStyles {
 public:
  explicit SeriesStyles(const std::vector<PlotSeries>& all)
      : first_(std::ranges::find_if(all, &PlotSeries::stands_out) - all.begin()),
        has_first_(static_cast<std::size_t>(first_) < all.size()),
        with_shapes_(std::ranges::count(all, PlotSeries::Mark::line, &PlotSeries::mark) >=
                     kManyLines) {}

  std::size_t of(std::size_t series) const {
    const auto first = static_cast<std::size_t>(first_);
    if (!has_first_ || series > first) return series;
    return series == first ? 0 : series + 1;
  }
  // True if lines have shapes.
  bool with_shapes() const { return with_shapes_; }

 private:
  static constexpr std::ptrdiff_t kManyLines = 5;
  std::ptrdiff_t first_;
  bool has_first_;
  bool with_shapes_;
};

std::string class_of(const PlotSeries& series, std::size_t style) {
  if (series.mark == PlotSeries::Mark::dots) return fmt::format("dots c{}", style % kStyles);
  return fmt::format("line{} c{} l{}", series.stands_out ? " out" : "", style % kStyles,
                     second_style(style));
}

std::string path_text(std::string_view classes, std::string_view path, std::string_view name) {
  if (path.empty()) return {};
  return fmt::format("<path class=\"{}\" d=\"{}\"><title>{}</title></path>\n", classes, path,
                     html_escape(name));
}

// Places shapes at a few points of a line, at other points than those of the other lines.
std::string shapes_on(const std::vector<std::pair<double, double>>& points, std::size_t style) {
  constexpr std::size_t kShapesOfALine = 5;
  const std::size_t parts = kShapesOfALine * kStyles;
  std::string path;
  for (std::size_t i = style % kStyles; i < parts && !points.empty(); i += kStyles) {
    const auto& [x, y] = points[i * points.size() / parts];
    path += fmt::format("M{:.1f} {:.1f}{}", x, y, shape_of(style));
  }
  return path;
}

std::string draw(const PlotSeries& series, std::size_t style, bool with_shapes, const PlotAxis& x,
                 const PlotAxis& y) {
  const bool is_line = series.mark == PlotSeries::Mark::line;
  std::vector<std::pair<double, double>> places;
  std::string path;
  for (const auto& [px, py] : series.points) {
    if (!x.shows(px) || !y.shows(py)) continue;
    places.emplace_back(x.place(px), y.place(py));
    path += fmt::format("{}{:.1f} {:.1f}{}", is_line && !path.empty() ? "L" : "M",
                        places.back().first, places.back().second, is_line ? "" : shape_of(style));
  }
  std::string out = path_text(class_of(series, style), path, series.name);
  if (is_line && with_shapes) {
    out += path_text(fmt::format("shapes c{}", style % kStyles), shapes_on(places, style),
                     series.name);
  }
  return out;
}

std::string legend(const std::vector<PlotSeries>& all, const SeriesStyles& styles) {
  std::string out = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_line = all[i].mark == PlotSeries::Mark::line;
    const std::size_t style = styles.of(i);
    const std::string shape = fmt::format("M14 6{}", shape_of(style));
    out += fmt::format(
        "<li{}><svg viewBox=\"0 0 28 12\" aria-hidden=\"true\"><path class=\"{}\" d=\"{}\"/>",
        all[i].stands_out ? " class=\"out\"" : "", class_of(all[i], style),
        is_line ? "M1 6L27 6" : shape);
    if (is_line && styles.with_shapes()) {
      out += fmt::format("<path class=\"shapes c{}\" d=\"{}\"/>", style % kStyles, shape);
    }
    out += fmt::format("</svg>{}</li>", html_escape(all[i].name));
  }
  return out + "</ul>\n";
}

}  // namespace

PlotSeries cdf_series(std::string name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  PlotSeries series{std::move(name), {}, PlotSeries::Mark::line};
  const std::size_t count = values.size();
  const std::size_t step = std::max<std::size_t>(1, count / kMostSteps);
  double share = 0;
  for (std::size_t i = 0; i < count; i = i + 1 == count ? count : std::min(i + step, count - 1)) {
    series.points.emplace_back(values[i], share);
    share = static_cast<double>(i + 1) / static_cast<double>(count);
    series.points.emplace_back(values[i], share);
  }
  return series;
}

Plot cdf_plot(std::string title, std::string x_label, std::vector<PlotSeries> cdfs) {
  constexpr double kWide = 20;
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (const PlotSeries& series : cdfs) {
    for (const auto& [x, y] : series.points) {
      low = std::min(low, x);
      high = std::max(high, x);
    }
  }
  Plot plot;
  plot.title = std::move(title);
  plot.x_label = std::move(x_label);
  plot.y_label = "percentile";
  plot.series = std::move(cdfs);
  plot.log_x = low > 0 && high > kWide * low;
  plot.y_from_zero = true;
  plot.of_percentiles = true;
  return plot;
}

std::string plot_html(const Plot& plot) {
  PlotAxis x(plot.log_x, kLeft, kWidth - kRight);
  PlotAxis y(plot.log_y, kHeight - kBottom, kTop);
  for (const PlotSeries& series : plot.series) {
    for (const auto& [px, py] : series.points) {
      if (!x.shows(px) || !y.shows(py)) continue;
      x.include(px);
      y.include(py);
    }
  }
  std::string out = fmt::format("<figure><figcaption>{}</figcaption>\n", html_escape(plot.title));
  if (x.empty()) return out + "<p>nothing was measured</p></figure>\n";
  x.finish(false);
  y.finish(plot.y_from_zero);
  out += fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
                     kHeight, html_escape(plot.title));
  out += grid(plot, x, y);
  const SeriesStyles styles(plot.series);
  for (const bool over : {false, true}) {
    for (std::size_t i = 0; i < plot.series.size(); ++i) {
      const PlotSeries& series = plot.series[i];
      if (series.stands_out == over) out += draw(series, styles.of(i), styles.with_shapes(), x, y);
    }
  }
  out += "</svg>\n";
  if (plot.series.size() > 1) out += legend(plot.series, styles);
  if (!plot.note.empty()) out += fmt::format("<p>{}</p>\n", html_escape(plot.note));
  return out + "</figure>\n";
}

}  // namespace tandem
