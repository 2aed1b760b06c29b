#include "scheduler/planning/costs/least_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace tandem {
namespace {

using Rows = std::vector<std::vector<double>>;

// Solves the square system m c = v by elimination; returns nothing without a unique solution.
std::optional<std::vector<double>> solve(Rows m, std::vector<double> v) {
  const std::size_t n = v.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < n; ++r) {
      if (std::abs(m[r][i]) > std::abs(m[pivot][i])) pivot = r;
    }
    if (std::abs(m[pivot][i]) < 1e-12) return std::nullopt;
    std::swap(m[i], m[pivot]);
    std::swap(v[i], v[pivot]);
    for (std::size_t r = i + 1; r < n; ++r) {
      const double factor = m[r][i] / m[i][i];
      for (std::size_t c = i; c < n; ++c) m[r][c] -= factor * m[i][c];
      v[r] -= factor * v[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t c = i + 1; c < n; ++c) v[i] -= m[i][c] * v[c];
    v[i] /= m[i][i];
  }
  return v;
}

double squares_left(const Rows& x, const std::vector<double>& target,
                    const std::vector<double>& coefficients, const std::vector<double>& weights) {
  double sum = 0;
  for (std::size_t s = 0; s < x.size(); ++s) {
    const double predicted =
        std::inner_product(x[s].begin(), x[s].end(), coefficients.begin(), 0.0);
    sum += weights[s] * (target[s] - predicted) * (target[s] - predicted);
  }
  return sum;
}

Status check_samples(const Rows& x, const std::vector<double>& y, std::size_t columns,
                     const std::vector<double>& weights) {
  if (!weights.empty() && weights.size() != y.size()) {
    return invalid("{} weights of {} samples", weights.size(), y.size());
  }
  if (x.size() != y.size() || columns == 0 || columns > 6 || y.size() < columns) {
    return invalid("{} samples of {} columns cannot be fitted", y.size(), columns);
  }
  for (std::size_t s = 0; s < y.size(); ++s) {
    if (x[s].size() != columns) return invalid("sample {} has {} columns", s, x[s].size());
    const bool finite =
        std::all_of(x[s].begin(), x[s].end(), [](double v) { return std::isfinite(v); });
    if (!finite || !std::isfinite(y[s]) || y[s] <= 0) {
      return invalid("sample {} is no measurement: {}", s, y[s]);
    }
  }
  return {};
}

}  // namespace

double r_squared(const std::vector<double>& y, const std::vector<double>& predicted) {
  const double mean = std::accumulate(y.begin(), y.end(), 0.0) / static_cast<double>(y.size());
  double left = 0;
  double all = 0;
  for (std::size_t s = 0; s < y.size(); ++s) {
    left += (y[s] - predicted[s]) * (y[s] - predicted[s]);
    all += (y[s] - mean) * (y[s] - mean);
  }
  if (all <= 0) return left <= 1e-18 ? 1 : 0;
  return 1 - left / all;
}

Result<LinearFit> fit_linear(const Rows& x, const std::vector<double>& y,
                             const std::vector<double>& weights) {
  const std::size_t columns = x.empty() ? 0 : x.front().size();
  TANDEM_TRY(check_samples(x, y, columns, weights));
  const std::vector<double> weight = weights.empty() ? std::vector(y.size(), 1.0) : weights;
  // Residuals are relative: each sample is divided by its y. Columns are scaled to one, so that
  // pivots can be compared.
  Rows scaled = x;
  std::vector<double> scale(columns, 0);
  for (std::size_t s = 0; s < y.size(); ++s) {
    for (std::size_t c = 0; c < columns; ++c) {
      scaled[s][c] /= y[s];
      scale[c] = std::max(scale[c], std::abs(scaled[s][c]));
    }
  }
  for (std::vector<double>& row : scaled) {
    for (std::size_t c = 0; c < columns; ++c) row[c] /= scale[c] > 0 ? scale[c] : 1;
  }
  const std::vector<double> ones(y.size(), 1.0);
  // Coefficients must not be negative: of all subsets of columns with such a solution, the one with
  // the least residual is taken.
  std::vector<double> best(columns, 0);
  double best_left = squares_left(scaled, ones, best, weight);
  for (unsigned mask = 1; mask < (1U << columns); ++mask) {
    std::vector<std::size_t> used;
    for (std::size_t c = 0; c < columns; ++c) {
      if ((mask >> c & 1U) != 0) used.push_back(c);
    }
    Rows normal(used.size(), std::vector<double>(used.size(), 0));
    std::vector<double> right(used.size(), 0);
    for (std::size_t s = 0; s < scaled.size(); ++s) {
      const std::vector<double>& row = scaled[s];
      for (std::size_t i = 0; i < used.size(); ++i) {
        for (std::size_t j = 0; j < used.size(); ++j) {
          normal[i][j] += weight[s] * row[used[i]] * row[used[j]];
        }
        right[i] += weight[s] * row[used[i]];
      }
    }
    const auto solved = solve(std::move(normal), std::move(right));
    if (!solved) continue;
    std::vector<double> tried(columns, 0);
    bool ok = true;
    for (std::size_t i = 0; i < used.size(); ++i) {
      tried[used[i]] = (*solved)[i];
      ok = ok && std::isfinite((*solved)[i]) && (*solved)[i] >= 0;
    }
    if (!ok) continue;
    const double left = squares_left(scaled, ones, tried, weight);
    // A column that explains nothing beyond rounding is left out.
    if (left < best_left * (1 - 1e-9)) {
      best_left = left;
      best = std::move(tried);
    }
  }
  LinearFit fit;
  fit.coefficients = std::move(best);
  for (std::size_t c = 0; c < columns; ++c) fit.coefficients[c] /= scale[c] > 0 ? scale[c] : 1;
  std::vector<double> predicted;
  for (const std::vector<double>& row : x) {
    predicted.push_back(std::inner_product(row.begin(), row.end(), fit.coefficients.begin(), 0.0));
  }
  fit.r2 = r_squared(y, predicted);
  return fit;
}

Result<LinearFit> fit_floor_and_line(const std::vector<double>& x, const std::vector<double>& y,
                                     const std::vector<double>& weights) {
  Rows rows;
  for (const double value : x) rows.push_back({value});
  TANDEM_TRY(check_samples(rows, y, 1, weights));
  const std::vector<double> weight = weights.empty() ? std::vector(y.size(), 1.0) : weights;
  if (std::any_of(x.begin(), x.end(), [](double v) { return v <= 0; }) || x.size() < 2) {
    return invalid("a floor and a line need two samples or more, all above zero");
  }
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  LinearFit best;
  double best_left = std::numeric_limits<double>::infinity();
  // The first `floor` samples lie on the floor, the others on the line; relative residuals.
  for (std::size_t floor = 1; floor <= order.size(); ++floor) {
    double one = 0;
    double two = 0;
    for (std::size_t i = 0; i < floor; ++i) {
      one += weight[order[i]] / y[order[i]];
      two += weight[order[i]] / (y[order[i]] * y[order[i]]);
    }
    const double level = one / two;
    one = 0;
    two = 0;
    for (std::size_t i = floor; i < order.size(); ++i) {
      const double ratio = x[order[i]] / y[order[i]];
      one += weight[order[i]] * ratio;
      two += weight[order[i]] * ratio * ratio;
    }
    // Without a sample on the line, the line starts at the last sample.
    const double slope = floor < order.size() ? one / two : level / x[order.back()];
    double left = 0;
    std::vector<double> predicted(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      predicted[i] = std::max(level, slope * x[i]);
      left += weight[i] * (1 - predicted[i] / y[i]) * (1 - predicted[i] / y[i]);
    }
    if (left >= best_left) continue;
    best_left = left;
    best.coefficients = {level, slope};
    best.r2 = r_squared(y, predicted);
  }
  return best;
}

}  // namespace tandem
