#include "tools/report/plot_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem {

bool PlotAxis::shows(double value) const {
  return std::isfinite(value) && (!logarithmic_ || value > 0);
}

void PlotAxis::include(double value) {
  low_ = std::min(low_, value);
  high_ = std::max(high_, value);
}

void PlotAxis::finish(bool from_zero) {
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

double PlotAxis::place(double value) const {
  const double share = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_)
                                    : (value - low_) / (high_ - low_);
  return from_ + share * (to_ - from_);
}

std::vector<double> PlotAxis::ticks() const {
  return axis_ticks(low_, high_, logarithmic_);
}

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
    if (ticks.size() > 1) return ticks;
    ticks.clear();  // both ends lie between two ticks: label it like a linear axis
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

std::string tick_text(double value) {
  constexpr double kLong = 10'000;
  const double size = std::abs(value);
  if (size < kLong) return fmt::format("{:.6g}", value == 0 ? 0.0 : value);  // no "-0"
  if (size < 1e6) return fmt::format("{:.6g}k", value / 1e3);
  if (size < 1e9) return fmt::format("{:.6g}M", value / 1e6);
  return fmt::format("{:.6g}G", value / 1e9);
}

}  // namespace tandem
