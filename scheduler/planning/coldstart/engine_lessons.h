// The measurements that an engine keeps of its machine for its next start.
#pragma once

#include "scheduler/planning/coldstart/plan_memory.h"
#include "scheduler/planning/costs/cost_learner.h"

namespace tandem {

struct EngineLessons {
  CostLessons costs;
  PlanLessons plans;

  bool operator==(const EngineLessons&) const = default;
};

}  // namespace tandem
