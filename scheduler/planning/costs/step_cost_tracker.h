// Step costs that follow measured steps: a profile of another driver, card or clock speed is
// corrected while an engine serves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "scheduler/planning/costs/step_costs.h"

namespace tandem {

struct TrackerOptions {
  double forgetting = 0.995;   // weight of a sample per later one: 200 steps of memory
  double clip_at_least = 0.1;  // share of the predicted time; deviations within are not clipped
  double clip_deviations = 4;  // clip limit in usual deviations, if that is more
  double usual_memory = 0.02;  // how fast the usual deviation follows; next: with a prompt
  double usual_memory_of_prompts = 0.1;
  double most_step_s = 60;  // a time above it is no measurement
};

// Recursive least squares with forgetting, for the factor of each coefficient over the first guess,
// with relative residuals. Outliers are clipped, so that a stall (a page fault, a paused process)
// changes little, while a lasting change raises the usual deviation and is followed within a
// thousand steps. Steps with a prompt have a usual deviation of their own, because other steps are
// far more frequent: however steady those are, prompts that take ten times the predicted time are
// followed within fifty. A coefficient that begins at zero stays zero. Not thread-safe; no
// allocation.
class StepCostTracker {
 public:
  explicit StepCostTracker(const StepCosts& first_guess, const TrackerOptions& options = {});

  // Adds a step that took `step_s`. Returns false and ignores it if it is no measurement (empty,
  // not finite, not above zero, longer than most_step_s): engines report steps over the network.
  bool observe(const DecodeLoad& decode, const PrefillLoad& prefill, double step_s);

  const StepCosts& costs() const { return costs_; }
  std::int64_t observed() const { return observed_; }
  // Share of the predicted time, for steps without a prompt: 0.02 is 2 %.
  double usual_deviation() const { return usual_; }

 private:
  static constexpr std::size_t kTerms = 6;
  using Terms = std::array<double, kTerms>;

  TrackerOptions options_;
  StepCosts first_;
  StepCosts costs_;
  Terms factor_;  // over the first guess
  std::array<Terms, kTerms> covariance_{};
  double usual_ = 0;
  double usual_of_prompts_ = 0;
  std::int64_t observed_ = 0;
};

}  // namespace tandem
