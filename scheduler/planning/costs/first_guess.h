// The costs that an engine reports before it has measured any, derived from the CostModel of its
// planner (profiled or built in). StepCostTracker corrects them.
#pragma once

#include <cstdint>

#include "scheduler/planning/costs/cold_start_costs.h"
#include "scheduler/planning/costs/cost_model.h"
#include "scheduler/planning/costs/step_costs.h"

namespace tandem {

// Sizes of the base model: number of layers, and bytes.
struct ModelSizes {
  std::int64_t layers = 0;
  std::int64_t kv_per_token = 0;
  std::int64_t adapter_per_rank = 0;  // for an adapter of all modules
};

// No coefficient is zero, so that the tracker can correct each.
StepCosts first_step_costs(const CostModel& model, const ModelSizes& sizes);
ColdStartCosts first_cold_costs(const CostModel& model, const ModelSizes& sizes, bool has_workers);

}  // namespace tandem
