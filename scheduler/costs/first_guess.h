// What an engine tells of its costs before it has measured any: made of the layers' figures that
// its planner goes by (a profile's, or the built-in ones). StepCostTracker mends them.
#pragma once

#include <cstdint>

#include "scheduler/costs/cold_start_costs.h"
#include "scheduler/costs/cost_model.h"
#include "scheduler/costs/step_costs.h"

namespace tandem {

// Of the base model, in bytes.
struct ModelSizes {
  std::int64_t layers = 0;
  std::int64_t kv_per_token = 0;
  std::int64_t adapter_per_rank = 0;  // of an adapter of all modules
};

// None of them zero, so that the tracker can move each.
StepCosts first_step_costs(const CostModel& model, const ModelSizes& sizes);
ColdStartCosts first_cold_costs(const CostModel& model, const ModelSizes& sizes, bool has_workers);

}  // namespace tandem
