// Whether a plan that comes from somewhere else (a file) may be enqueued.
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
  std::int32_t num_pages = 0;
  std::int32_t page_tokens = 0;
  std::int64_t vocab_size = 0;
};

// Everything that computing the plan would use without a look: ids, positions, ranges, counts. The
// step before it samples `samples_before` tokens. Slots are the caller's to check. The message
// names the field.
Status check_plan(const StepPlan& plan, const PlanLimits& limits, std::int32_t samples_before);

}  // namespace tandem
