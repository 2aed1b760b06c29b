// Fits linear models to measurements: turns the samples of `tandem profile` into a CostModel.
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"

namespace tandem {

struct LinearFit {
  std::vector<double> coefficients;  // one per column of x, none below zero
  double r2 = 0;                     // 1: a perfect fit; negative: worse than the mean
};

// Returns the coefficients c >= 0 with the least sum of ((y - x c) / y)^2, so that a small sample
// counts as much as a large one, and R2 of the plain residuals. Rows of x are samples, with up to 6
// columns and at least as many samples as columns. Rejects samples that are not finite, and y that
// is not positive. `weights` of the squares: one per sample, all above 0; if empty, all are equal.
Result<LinearFit> fit_linear(const std::vector<std::vector<double>>& x,
                             const std::vector<double>& y, const std::vector<double>& weights = {});

// y = max(c0, c1 x): a floor, then a line through the origin. At least two samples, all positive.
Result<LinearFit> fit_floor_and_line(const std::vector<double>& x, const std::vector<double>& y,
                                     const std::vector<double>& weights = {});

double r_squared(const std::vector<double>& y, const std::vector<double>& predicted);

}  // namespace tandem
