// Checks plans from outside the engine (from a file) before they are enqueued.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "engine/executor/step_plan.h"
#include "engine/model/model.h"
#include "engine/model/step/step_batch.h"

namespace tandem {

struct PlanLimits {
  ModelLimits model;
  StepLimits step;
  std::int32_t num_pages = 0;  // the null page included, if there is one
  std::int32_t page_tokens = 0;
  std::int64_t vocab_size = 0;
};

// Checks everything that the computation uses unchecked: ids, positions, ranges, counts. The step
// before samples `samples_before` tokens. The caller checks the slots. The error names the field.
Status check_plan(const StepPlan& plan, const PlanLimits& limits, std::int32_t samples_before);

}  // namespace tandem
