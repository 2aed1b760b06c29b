// Which way a step with cold rows goes: what plans promise, by what such steps were seen to take.
#pragma once

#include "scheduler/coldstart/plan_memory.h"
#include "scheduler/coldstart/planner.h"
#include "scheduler/costs/cost_learner.h"

namespace tandem {

struct StepChoice {
  HandoffPlan plan;
  PlanWay way = PlanWay::wait;
  // Expected, in seconds from now: by all that is known, where plans of such steps may have been
  // seen to take longer than they say.
  double ends = 0;
  // Workers were to shorten the step, by what plans promise, and such steps were seen to lose.
  bool given_up = false;
  bool is_worth_planning = true;  // as the function of that name
};

// Of an admission's step or of one that begins now: both have to come to the same, for the order of
// loads hangs on it. `costs` has the learner's factors.
StepChoice choose_step(const CostModel& costs, const PlanRequest& request,
                       const CostLearner& learner, const PlanMemory& memory);

}  // namespace tandem
