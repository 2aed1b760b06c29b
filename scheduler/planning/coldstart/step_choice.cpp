#include "scheduler/planning/coldstart/step_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tandem {

StepChoice choose_step(const CostModel& costs, const PlanRequest& request,
                       const PlanMemory& memory) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const double start = std::max(0.0, request.starts_in);
  HandoffPlan plan = plan_handoff(costs, request);
  const bool plans = hands_over(plan);
  HandoffPlan waiting = plans ? plan_waiting(costs, request) : plan;
  const PlanSituation situation = PlanSituation::of(costs, request);
  if (request.workers <= 0 || !is_worth_planning(request, waiting)) {
    const PlanSeconds alone = {step_seconds(request, waiting), kNone, kNone};
    const double seconds = memory.expected(situation, alone)[index_of(PlanWay::wait)];
    return {.plan = std::move(waiting), .ends = start + seconds, .is_worth_planning = false};
  }
  HandoffPlan assisting = plan_assisting(costs, request);
  const bool is_other = assisting.choices != plan.choices;
  const PlanSeconds predicted = {
      step_seconds(request, waiting), plans ? step_seconds(request, plan) : kNone,
      is_other && hands_over(assisting) ? step_seconds(request, assisting) : kNone};
  const PlanWay way = memory.choose(situation, predicted);
  // The expected end ignores ways that are only tried: admission would avoid the slow step, and the
  // try would never happen.
  const PlanSeconds expected = memory.expected(situation, predicted);
  const double ends = start + expected[index_of(PlanMemory::promised(expected))];
  if (way == PlanWay::plan) return {std::move(plan), way, ends};
  if (way == PlanWay::assist) return {std::move(assisting), way, ends};
  const bool given_up = PlanMemory::promised(predicted) != PlanWay::wait &&
                        PlanMemory::promised(expected) == PlanWay::wait;
  return {std::move(waiting), way, ends, given_up};
}

}  // namespace tandem
