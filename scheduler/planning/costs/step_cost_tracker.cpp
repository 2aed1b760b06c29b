#include "scheduler/planning/costs/step_cost_tracker.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

// The variance of a first guess's factor, in units of the variance of a step's noise (some
// percent). A term that is a tenth of a step must be able to follow the time of the whole step. It
// is also the upper limit: without new information, forgetting would let the covariance grow
// without end.
constexpr double kDoubt = 25;
// The range of a factor: a value beyond comes from a broken report.
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
  // Terms of the first guess over the prediction: factors of one explain a residual of zero.
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
  // Rows and columns shrink by the same factor: the matrix stays a covariance, and terms with much
  // information keep forgetting.
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
