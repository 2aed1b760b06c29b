// Chooses the way of a step with cold rows from predictions and the measured times of such steps.
#pragma once

#include "scheduler/planning/coldstart/plan_memory.h"
#include "scheduler/planning/coldstart/planner.h"

namespace tandem {

// The way of a step. It is chosen when the step's loads are ordered, which travel in the order that
// suits it, or when a step without such a choice begins.
struct WayChoice {
  PlanSituation situation = {};
  PlanWay way = PlanWay::wait;
  bool is_try = false;    // of a way that is expected to be slower (PlanMemory::choose)
  bool given_up = false;  // workers would shorten the step by prediction, but were measured not to
};

struct StepChoice {
  HandoffPlan plan;
  WayChoice chosen = {};
  // Expected, in seconds from now, corrected by measurements: steps of this kind may have taken
  // longer than their plans predicted.
  double ends = 0;
  bool is_worth_planning = true;  // as is_worth_planning() returned
};

StepChoice choose_step(const CostModel& costs, const PlanRequest& request,
                       const PlanMemory& memory);

// Plans a step in the way that was chosen earlier; its layers are chosen by the arrivals in
// `request`. `ends` is not corrected.
StepChoice plan_as_chosen(const CostModel& costs, const PlanRequest& request,
                          const WayChoice& chosen);

}  // namespace tandem
