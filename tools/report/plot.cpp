#include "tools/report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/report/html_page.h"

namespace tandem {
namespace {

// Of the drawing, in its own units; the page scales it.
constexpr double kWidth = 640;
constexpr double kHeight = 340;
constexpr double kLeft = 64;
constexpr double kRight = 14;
constexpr double kTop = 10;
constexpr double kBottom = 46;
constexpr int kStyles = 9;  // of .s0 .. .s8 in HtmlPage's style sheet
// More would make pages of megabytes and look the same.
constexpr std::size_t kMostSteps = 400;

// One axis: what of the data it shows, and where on the drawing.
class Axis {
 public:
  Axis(bool logarithmic, double from, double to)
      : logarithmic_(logarithmic), from_(from), to_(to) {}

  bool shows(double value) const { return std::isfinite(value) && (!logarithmic_ || value > 0); }
  void include(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  bool empty() const { return low_ > high_; }

  // A range of some width, a little wider than the data.
  void finish(bool from_zero) {
    if (from_zero && !logarithmic_) include(0);
    if (logarithmic_) {
      if (high_ < low_ * 1.05) {
        low_ /= 1.5;
        high_ *= 1.5;
      }
      const double room = std::pow(high_ / low_, 0.02);
      low_ /= room;
      high_ *= room;
      return;
    }
    if (high_ - low_ <= 1e-12 * std::max(std::abs(low_), std::abs(high_))) {
      const double room = low_ == 0 ? 1 : std::abs(low_) / 2;
      low_ -= room;
      high_ += room;
    }
    const double room = (high_ - low_) * 0.02;
    if (low_ < 0 || low_ - room > 0) low_ -= room;
    high_ += room;
  }

  double place(double value) const {
    const double share = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_)
                                      : (value - low_) / (high_ - low_);
    return from_ + share * (to_ - from_);
  }
  std::vector<double> ticks() const { return axis_ticks(low_, high_, logarithmic_); }

 private:
  bool logarithmic_;
  double from_, to_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

std::string number(double value) {
  return fmt::format("{:.6g}", value == 0 ? 0.0 : value);  // no "-0"
}

std::string grid(const Plot& plot, const Axis& x, const Axis& y) {
  std::string out;
  const double bottom = kHeight - kBottom;
  for (const double tick : x.ticks()) {
    const double at = x.place(tick);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        at, kTop, bottom, bottom + 16, number(tick));
  }
  for (const double tick : y.ticks()) {
    const double at = y.place(tick);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, kWidth - kRight, at, kLeft - 6, at + 4, number(tick));
  }
  out += fmt::format(
      "<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
      "<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{3:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>\n",
      kLeft, kWidth - kRight, bottom, kTop);
  out += fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}",
                     (kLeft + kWidth - kRight) / 2, kHeight - 8, html_escape(plot.x_label));
  const double middle = (kTop + bottom) / 2;
  out += fmt::format(
      "</text>\n<text class=\"label\" transform=\"translate(14 {:.1f}) rotate(-90)\" "
      "text-anchor=\"middle\">{}</text>\n",
      middle, html_escape(plot.y_label));
  return out;
}

std::string draw(const PlotSeries& series, std::size_t style, const Axis& x, const Axis& y) {
  std::string path;
  std::string dots;
  for (const auto& [px, py] : series.points) {
    if (!x.shows(px) || !y.shows(py)) continue;
    const double left = x.place(px);
    const double top = y.place(py);
    if (series.mark == PlotSeries::Mark::line) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", left, top);
    } else {
      dots += fmt::format(
          "<circle class=\"s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}: {}, "
          "{}</title></circle>\n",
          style, left, top, html_escape(series.name), number(px), number(py));
    }
  }
  if (path.empty()) return dots;
  return fmt::format("<path class=\"s{}\" d=\"{}\"><title>{}</title></path>\n{}", style, path,
                     html_escape(series.name), dots);
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, bool logarithmic, int count) {
  std::vector<double> ticks;
  if (logarithmic) {
    const double first = std::floor(std::log10(low));
    const double last = std::ceil(std::log10(high));
    const bool between = last - first <= 3;
    const double step = std::max(1.0, std::ceil((last - first) / count));
    for (double power = first; power <= last; power += step) {
      for (const double times : {1.0, 2.0, 5.0}) {
        const double tick = times * std::pow(10, power);
        if ((times > 1 && !between) || tick < low || tick > high) continue;
        ticks.push_back(tick);
      }
    }
    return ticks;
  }
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double times : {5.0, 2.0, 1.0}) {
    if (times * power >= rough) step = times * power;
  }
  for (double i = std::ceil(low / step); i * step <= high; ++i) ticks.push_back(i * step);
  return ticks;
}

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
  plot.y_label = "share of the requests";
  plot.series = std::move(cdfs);
  plot.log_x = low > 0 && high > kWide * low;
  plot.y_from_zero = true;
  return plot;
}

std::string plot_html(const Plot& plot) {
  Axis x(plot.log_x, kLeft, kWidth - kRight);
  Axis y(plot.log_y, kHeight - kBottom, kTop);
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
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    out += draw(plot.series[i], i % kStyles, x, y);
  }
  out += "</svg>\n";
  if (plot.series.size() > 1) {
    out += "<ul class=\"legend\">";
    for (std::size_t i = 0; i < plot.series.size(); ++i) {
      out += fmt::format(
          "<li><svg viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path class=\"s{}\" d=\"M1 5L27 "
          "5\"/></svg>{}</li>",
          i % kStyles, html_escape(plot.series[i].name));
    }
    out += "</ul>\n";
  }
  if (!plot.note.empty()) out += fmt::format("<p>{}</p>\n", html_escape(plot.note));
  return out + "</figure>\n";
}

}  // namespace tandem
