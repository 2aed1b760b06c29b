#include "scheduler/costs/step_cost_tracker.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

// How wrong a first guess may be: a variance of its factor, in units of that of a step's own noise
// (some percent). A term that is a tenth of a step must be able to follow what the whole step took.
// Without new information forgetting would let the covariance grow without end, so it never exceeds
// this.
constexpr double kDoubt = 25;
// A factor stays within these: what lies beyond is no correction but a broken report.
constexpr double kLeastFactor = 0.02;
constexpr double kMostFactor = 50;

}  // namespace

StepCostTracker::StepCostTracker(const StepCosts& first_guess, const TrackerOptions& options)
    : options_(options), first_(first_guess), costs_(first_guess) {
  factor_.fill(1);
  for (std::size_t i = 0; i < kTerms; ++i) covariance_[i][i] = kDoubt;
}

bool StepCostTracker::observe(const DecodeLoad& decode, const PrefillLoad& prefill, double step_s) {
  if (!std::isfinite(step_s) || step_s <= 0 || step_s > options_.most_step_s) return false;
  const double predicted = costs_.step_time_s(decode, prefill);
  if (!std::isfinite(predicted) || predicted <= 0) return false;
  // Each term as the first guess has it, over the prediction: factors of one explain a residual of
  // nought.
  Terms x = {first_.step_s,
             first_.request_s * static_cast<double>(decode.requests),
             first_.rank_s * first_.decode_ranks(decode),
             first_.context_token_s * static_cast<double>(decode.context_tokens),
             first_.prefill_token_s * static_cast<double>(prefill.tokens),
             first_.prefill_rank_token_s * first_.prefill_ranks(prefill)};
  for (double& term : x) term /= predicted;

  const double residual = step_s / predicted - 1;
  const bool has_prompt = prefill.requests > 0;
  double& usual = has_prompt ? usual_of_prompts_ : usual_;
  const double limit = std::max(options_.clip_at_least, options_.clip_deviations * usual);
  const double clipped = std::clamp(residual, -limit, limit);
  usual += (has_prompt ? options_.usual_memory_of_prompts : options_.usual_memory) *
           (std::abs(clipped) - usual);

  Terms projected{};  // covariance x
  double explained = options_.forgetting;
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j < kTerms; ++j) projected[i] += covariance_[i][j] * x[j];
    explained += x[i] * projected[i];
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    factor_[i] =
        std::clamp(factor_[i] + projected[i] / explained * clipped, kLeastFactor, kMostFactor);
  }
  Terms shrink{};
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j < kTerms; ++j) {
      covariance_[i][j] =
          (covariance_[i][j] - projected[i] * projected[j] / explained) / options_.forgetting;
    }
    shrink[i] = covariance_[i][i] > kDoubt ? std::sqrt(kDoubt / covariance_[i][i]) : 1;
  }
  // Row and column by the same factor: it stays a covariance, and terms that steps tell much about
  // keep forgetting.
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j < kTerms; ++j) covariance_[i][j] *= shrink[i] * shrink[j];
  }
  costs_.step_s = first_.step_s * factor_[0];
  costs_.request_s = first_.request_s * factor_[1];
  costs_.rank_s = first_.rank_s * factor_[2];
  costs_.context_token_s = first_.context_token_s * factor_[3];
  costs_.prefill_token_s = first_.prefill_token_s * factor_[4];
  costs_.prefill_rank_token_s = first_.prefill_rank_token_s * factor_[5];
  ++observed_;
  return true;
}

}  // namespace tandem
