// Fits that are hardly affected by single disturbed cases: a case that is twice as far off has four
// times the loss in least squares, but only twice the loss here if it is off by more than a
// twentieth.
#pragma once

#include <vector>

#include "base/status.h"
#include "scheduler/planning/costs/least_squares.h"

namespace tandem {

// Residuals are relative to the sample: 0.05 is a sample that is 5 % off. Up to this limit the loss
// is quadratic, beyond it linear (Huber's loss).
inline constexpr double kNearResidual = 0.05;
double huber_loss(double residual);
// The weight of a sample in least squares that are repeated until they minimise that loss.
double huber_weight(double residual);

// Robust versions of fit_linear and fit_floor_and_line (least_squares.h).
Result<LinearFit> fit_linear_robustly(const std::vector<std::vector<double>>& x,
                                      const std::vector<double>& y);
Result<LinearFit> fit_floor_and_line_robustly(const std::vector<double>& x,
                                              const std::vector<double>& y);

}  // namespace tandem
