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
  WayChoice chosen = {.situation = PlanSituation::of(costs, request)};
  if (request.workers <= 0 || !is_worth_planning(request, waiting)) {
    const PlanSeconds alone = {step_seconds(request, waiting), kNone, kNone};
    const double seconds = memory.expected(chosen.situation, alone)[index_of(PlanWay::wait)];
    return {std::move(waiting), chosen, start + seconds, false};
  }
  HandoffPlan assisting = plan_assisting(costs, request);
  const bool is_other = assisting.choices != plan.choices;
  const PlanSeconds predicted = {
      step_seconds(request, waiting), plans ? step_seconds(request, plan) : kNone,
      is_other && hands_over(assisting) ? step_seconds(request, assisting) : kNone};
  // The expected end ignores ways that are only tried: admission would avoid the slow step, and the
  // try would never happen.
  const PlanSeconds expected = memory.expected(chosen.situation, predicted);
  const PlanWay best = PlanMemory::promised(expected);
  const double ends = start + expected[index_of(best)];
  chosen.way = memory.choose(chosen.situation, predicted);
  chosen.is_try = chosen.way != best;
  if (chosen.way == PlanWay::plan) return {std::move(plan), chosen, ends};
  if (chosen.way == PlanWay::assist) return {std::move(assisting), chosen, ends};
  chosen.given_up = PlanMemory::promised(predicted) != PlanWay::wait && best == PlanWay::wait;
  return {std::move(waiting), chosen, ends};
}

StepChoice plan_as_chosen(const CostModel& costs, const PlanRequest& request,
                          const WayChoice& chosen) {
  HandoffPlan plan = chosen.way == PlanWay::wait   ? plan_waiting(costs, request)
                     : chosen.way == PlanWay::plan ? plan_handoff(costs, request)
                                                   : plan_assisting(costs, request);
  const double ends = std::max(0.0, request.starts_in) + step_seconds(request, plan);
  return {std::move(plan), chosen, ends};
}

}  // namespace tandem
