#include "tools/profile/fit/robust_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem {
namespace {

// The loss is convex, so each round comes closer; after this many the error is far below the noise.
constexpr int kReweighings = 12;

template <typename Fit, typename Predict>
Result<LinearFit> fit_again_and_again(const std::vector<double>& y, Fit&& fit, Predict&& predict) {
  std::vector<double> weights(y.size(), 1.0);
  TANDEM_ASSIGN(LinearFit found, fit(weights));
  for (int round = 0; round < kReweighings; ++round) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      weights[i] = huber_weight(1 - predict(found, i) / y[i]);
    }
    TANDEM_ASSIGN(found, fit(weights));
  }
  return found;
}

}  // namespace

double huber_loss(double residual) {
  const double size = std::abs(residual);
  return size <= kNearResidual ? size * size / 2 : kNearResidual * (size - kNearResidual / 2);
}

double huber_weight(double residual) {
  return kNearResidual / std::max(kNearResidual, std::abs(residual));
}

Result<LinearFit> fit_linear_robustly(const std::vector<std::vector<double>>& x,
                                      const std::vector<double>& y) {
  return fit_again_and_again(
      y, [&](const std::vector<double>& weights) { return fit_linear(x, y, weights); },
      [&](const LinearFit& fit, std::size_t i) {
        return std::inner_product(x[i].begin(), x[i].end(), fit.coefficients.begin(), 0.0);
      });
}

Result<LinearFit> fit_floor_and_line_robustly(const std::vector<double>& x,
                                              const std::vector<double>& y) {
  return fit_again_and_again(
      y, [&](const std::vector<double>& weights) { return fit_floor_and_line(x, y, weights); },
      [&](const LinearFit& fit, std::size_t i) {
        return std::max(fit.coefficients[0], fit.coefficients[1] * x[i]);
      });
}

}  // namespace tandem
