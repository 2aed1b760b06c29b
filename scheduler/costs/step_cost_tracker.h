// Step costs that follow what steps take: a profile of another driver, card or clock speed heals
// while an engine serves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "scheduler/costs/step_costs.h"

namespace tandem {

struct TrackerOptions {
  double forgetting = 0.995;   // what a sample counts for after one more: 200 steps of memory
  double clip_at_least = 0.1;  // of the predicted time: a deviation within it counts as it is
  double clip_deviations = 4;  // beyond: so many times the deviation that is usual now
  double usual_memory = 0.02;  // how fast "usual" follows, and for steps with a prompt
  double usual_memory_of_prompts = 0.1;
  double most_step_s = 60;  // a time above it is no measurement
};

// Recursive least squares with forgetting, of each coefficient's factor over the first guess, with
// relative residuals. One that is out of proportion is clipped, so that a stall (a page fault, a
// paused process) moves little, while a change that stays makes itself usual and is believed within
// a thousand steps. What is usual is known of steps with a prompt apart from the others, which are
// many for each of them: however steady those are, prompts that take ten times what was thought are
// believed within fifty. A coefficient that begins at zero stays there. Not thread-safe; no
// allocation.
class StepCostTracker {
 public:
  explicit StepCostTracker(const StepCosts& first_guess, const TrackerOptions& options = {});

  // A step that took `step_s`. False: it is no measurement (empty, not finite, not above zero,
  // longer than most_step_s) and was ignored: engines report these over the network.
  bool observe(const DecodeLoad& decode, const PrefillLoad& prefill, double step_s);

  const StepCosts& costs() const { return costs_; }
  std::int64_t observed() const { return observed_; }
  // Of the predicted time, of steps without a prompt: 0.02 is 2 %.
  double usual_deviation() const { return usual_; }

 private:
  static constexpr std::size_t kTerms = 6;
  using Terms = std::array<double, kTerms>;

  TrackerOptions options_;
  StepCosts first_;
  StepCosts costs_;
  Terms factor_;  // of the first guess
  std::array<Terms, kTerms> covariance_{};
  double usual_ = 0;
  double usual_of_prompts_ = 0;
  std::int64_t observed_ = 0;
};

}  // namespace tandem
