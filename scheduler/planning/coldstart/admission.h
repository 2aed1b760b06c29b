// The steps in which waiting cold adapters begin. A step ends with its last row, and the link loads
// one adapter after another. If all began in the next step, the first would wait for the last; if
// one began per step, the last would wait although earlier steps had room for it. So adapters begin
// in groups of equal size, one per step, in their order, which is also the order of their loads.
//
// Pure functions of times, like the planner.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/planning/coldstart/load_piece.h"
#include "scheduler/planning/coldstart/planner.h"
#include "scheduler/planning/coldstart/step_choice.h"

namespace tandem {

struct AdmissionPlan {
  // The step in which each adapter begins: 0 is the next step, 1 the one after it, ...
  std::vector<std::int32_t> turns;
  // Order of the loads, as in HandoffPlan, step by step.
  std::vector<LoadPiece> order;
  // Expected end of each adapter's first step, in seconds from now.
  std::vector<double> ends;
  bool hands_over = false;  // the next step uses workers, as planned now
  // The next step uses no workers as planned now, but may when it begins and they are awake.
  bool may_hand_over = false;

  // The way of each step that is chosen for good, in the order of the steps. Left out are steps
  // that wait because workers sleep, which may be awake when the step begins.
  struct Step {
    std::vector<std::int32_t> adapters;  // indices of those that are cold when it begins
    WayChoice chosen;
  };
  std::vector<Step> steps;

  double sum_of_ends() const;
};

using PlanSteps = std::function<StepChoice(const CostModel& costs, const PlanRequest& request)>;

// plan_handoff() with its predicted end, not corrected by measurements.
StepChoice plan_as_predicted(const CostModel& costs, const PlanRequest& request);

// Returns the plan with the earliest mean end: all adapters at once or, where that is clearly
// earlier, halves, quarters ... down to one per step. `request` describes the next step as if all
// its adapters were in it, in the order in which they should begin; `plan` plans a step, and is
// called some 2 n times for n adapters.
AdmissionPlan plan_admission(const CostModel& costs, const PlanRequest& request,
                             const PlanSteps& plan = plan_as_predicted);

}  // namespace tandem
