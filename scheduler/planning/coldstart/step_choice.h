// Chooses the way of a step with cold rows from predictions and the measured times of such steps.
#pragma once

#include "scheduler/planning/coldstart/plan_memory.h"
#include "scheduler/planning/coldstart/planner.h"

namespace tandem {

struct StepChoice {
  HandoffPlan plan;
  PlanWay way = PlanWay::wait;
  // Expected, in seconds from now, corrected by measurements: steps of this kind may have taken
  // longer than their plans predicted.
  double ends = 0;
  // Workers would shorten the step by prediction, but were measured to make such steps longer.
  bool given_up = false;
  bool is_worth_planning = true;  // as is_worth_planning() returned
};

// For a step under admission, whose loads travel in the order that suits the choice, and again for
// the step that begins: by then workers may have woken up and loads may be late, and a step with
// adapters that an earlier one began with has no admission. Both make the same choice where nothing
// of that has happened, as their situations are the same then.
StepChoice choose_step(const CostModel& costs, const PlanRequest& request,
                       const PlanMemory& memory);

}  // namespace tandem
