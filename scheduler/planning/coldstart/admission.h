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

  double sum_of_ends() const;
};

struct PlannedStep {
  HandoffPlan plan;
  // Waiting costs enough to wake workers, and such plans were not measured to be slower.
  bool is_worth_waking = true;
  // In seconds from now, corrected by measurements: steps of this kind may have taken longer than
  // their plans predicted.
  double ends = 0;
};

using PlanSteps = std::function<PlannedStep(const CostModel& costs, const PlanRequest& request)>;

// plan_handoff() with its predicted end, not corrected by measurements.
PlannedStep plan_as_predicted(const CostModel& costs, const PlanRequest& request);

// Returns the plan with the earliest mean end: all adapters at once or, where that is clearly
// earlier, halves, quarters ... down to one per step. `request` describes the next step as if all
// its adapters were in it, in the order in which they should begin; `plan` plans a step, and is
// called some 2 n times for n adapters.
AdmissionPlan plan_admission(const CostModel& costs, const PlanRequest& request,
                             const PlanSteps& plan = plan_as_predicted);

}  // namespace tandem
