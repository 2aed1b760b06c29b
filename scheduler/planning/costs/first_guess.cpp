#include "scheduler/planning/costs/first_guess.h"

namespace tandem {

StepCosts first_step_costs(const CostModel& model, const ModelSizes& sizes) {
  // Adapter rows and KV are bound by device memory, which the model does not cover: this is the
  // rate at which an H200 reads (simulator/machine.cpp).
  constexpr double kReadBytesPerS = 2.9e12;
  const auto layers = static_cast<double>(sizes.layers);
  const double rank_s = static_cast<double>(sizes.adapter_per_rank) / kReadBytesPerS;
  return {.kernel = LoraKernel::mbgmv,  // ranks are not padded
          .step_s = layers * model.layer_s,
          .request_s = layers * model.layer_row_s,
          .rank_s = rank_s,
          .context_token_s = static_cast<double>(sizes.kv_per_token) / kReadBytesPerS,
          .prefill_token_s = layers * model.layer_row_s,
          .prefill_rank_token_s = 0.1 * rank_s};
}

ColdStartCosts first_cold_costs(const CostModel& model, const ModelSizes& sizes, bool has_workers) {
  const auto layers = static_cast<double>(sizes.layers);
  ColdStartCosts costs;
  costs.link_bytes_per_s = model.link_bytes_per_s;
  costs.load_s = layers * model.copy_s;
  costs.cpu_assist = has_workers;
  // A layer has four round trips; each rank of a row multiplies all weights of a rank.
  constexpr double kSites = 4;
  costs.cpu_step_s = layers * (kSites * model.trip_s * model.in_step + model.in_step_extra_s);
  const double flops_per_rank =
      2 * static_cast<double>(sizes.adapter_per_rank) / model.element_bytes;
  costs.cpu_rank_token_s = flops_per_rank / model.worker_flops;
  return costs;
}

}  // namespace tandem
