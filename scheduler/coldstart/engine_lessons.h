// What an engine has learnt of its machine, to be kept until the next one begins.
#pragma once

#include "scheduler/coldstart/plan_memory.h"
#include "scheduler/costs/cost_learner.h"

namespace tandem {

struct EngineLessons {
  CostLessons costs;
  PlanLessons plans;

  bool operator==(const EngineLessons&) const = default;
};

}  // namespace tandem
