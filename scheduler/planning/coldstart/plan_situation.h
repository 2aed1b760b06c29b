// Defines which steps with cold rows count as alike, and the ways in which such a step may run.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "scheduler/planning/coldstart/planner.h"

namespace tandem {

// A class of similar steps: number of adapters, number of rows, time from the start of the step to
// the last arrival (in quarters of the step's time with all adapters resident) and number of
// workers, each by doublings; and whether some workers slept until just before the step. Usually it
// is the same when loads are ordered and when the step is planned, whatever the order. An adapter
// that has become resident in between counts only at the former.
struct PlanSituation {
  std::uint8_t adapters = 0, rows = 0, link = 0, workers = 0, just_woken = 0;

  static PlanSituation of(const CostModel& costs, const PlanRequest& request);
  auto operator<=>(const PlanSituation&) const = default;  // NOLINT(*-nullptr)
};

// How a step with cold rows runs: it waits for each layer (the mode `pipelined`), follows the plan,
// or has workers compute each layer until its weights arrive (as `cpu_assist`, but layer by layer).
enum class PlanWay : std::uint8_t { wait, plan, assist };
inline constexpr std::size_t kNumPlanWays = 3;
inline constexpr std::array<PlanWay, kNumPlanWays> kPlanWays = {PlanWay::wait, PlanWay::plan,
                                                                PlanWay::assist};
constexpr std::size_t index_of(PlanWay way) {
  return static_cast<std::size_t>(way);
}

}  // namespace tandem
