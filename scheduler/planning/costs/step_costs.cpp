#include "scheduler/planning/costs/step_costs.h"

#include "scheduler/planning/costs/least_squares.h"

namespace tandem {

Result<StepCostsFit> fit_step_costs(LoraKernel kernel, const std::vector<StepSample>& samples) {
  StepCostsFit fit;
  fit.costs.kernel = kernel;
  std::vector<std::vector<double>> x;
  std::vector<double> y;
  for (const StepSample& sample : samples) {
    if (sample.decode.requests == 0 && sample.prefill.requests == 0) {
      return invalid("sample {} of a step has nothing in it", x.size());
    }
    x.push_back(
        {1, static_cast<double>(sample.decode.requests), fit.costs.decode_ranks(sample.decode),
         static_cast<double>(sample.decode.context_tokens),
         static_cast<double>(sample.prefill.tokens), fit.costs.prefill_ranks(sample.prefill)});
    y.push_back(sample.step_s);
  }
  TANDEM_ASSIGN(const LinearFit linear, fit_linear(x, y));
  fit.costs.step_s = linear.coefficients[0];
  fit.costs.request_s = linear.coefficients[1];
  fit.costs.rank_s = linear.coefficients[2];
  fit.costs.context_token_s = linear.coefficients[3];
  fit.costs.prefill_token_s = linear.coefficients[4];
  fit.costs.prefill_rank_token_s = linear.coefficients[5];
  fit.r2 = linear.r2;
  return fit;
}

}  // namespace tandem
