// Fits in which one case that was held up moves little: where least squares give a case that is
// twice as far off four times the weight, these give it twice the weight beyond a twentieth.
#pragma once

#include <vector>

#include "base/status.h"
#include "scheduler/costs/least_squares.h"

namespace tandem {

// Residuals are relative to the sample: 0.05 is a sample 5 % off. Up to this they count by their
// squares, beyond it in proportion (Huber's loss).
inline constexpr double kNearResidual = 0.05;
double huber_loss(double residual);
// Of a sample, for least squares that are done again until they minimise that loss.
double huber_weight(double residual);

// As fit_linear and fit_floor_and_line (least_squares.h).
Result<LinearFit> fit_linear_robustly(const std::vector<std::vector<double>>& x,
                                      const std::vector<double>& y);
Result<LinearFit> fit_floor_and_line_robustly(const std::vector<double>& x,
                                              const std::vector<double>& y);

}  // namespace tandem
