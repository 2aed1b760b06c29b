// In which steps cold adapters begin that wait together. A step ends when its last row does, and
// the link brings one adapter after another: all in the next step, the first would wait for the
// last; one a step, the last would wait for steps that had room for it. So they begin in turns of
// equal size, in their order, and each turn's weights travel before the next one's.
//
// Pure functions of times, like the planner.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/coldstart/load_piece.h"
#include "scheduler/coldstart/planner.h"

namespace tandem {

struct AdmissionPlan {
  // Of each adapter: 0 begins in the next step, 1 in the one after it, ...
  std::vector<std::int32_t> turns;
  // As in HandoffPlan, turn by turn.
  std::vector<LoadPiece> order;
  // Expected end of each one's first step, in seconds from now.
  std::vector<double> ends;
  bool hands_over = false;  // the next step, as it is planned now: to workers
  // It does not, but may yet when it begins: workers that sleep by now are awake then.
  bool may_hand_over = false;

  double sum_of_ends() const;
};

struct PlannedStep {
  HandoffPlan plan;
  // Waiting costs enough for a thought of workers, and such plans were not seen to lose.
  bool is_worth_waking = true;
  // In seconds from now, by all that is known: plans of such steps may have been seen to take
  // longer than they say.
  double ends = 0;
};

using PlanSteps = std::function<PlannedStep(const CostModel& costs, const PlanRequest& request)>;

// plan_handoff(), taken at its word.
PlannedStep plan_as_predicted(const CostModel& costs, const PlanRequest& request);

// The turns with the earliest mean end among: all at once, and, where that is some earlier, halves,
// quarters ... down to one a step. `request` describes the next step as if all its adapters were in
// it, in the order in which they should begin; `plan` plans a step, and is called some 2 n times
// for n adapters.
AdmissionPlan plan_admission(const CostModel& costs, const PlanRequest& request,
                             const PlanSteps& plan = plan_as_predicted);

}  // namespace tandem
