// What plans came to, where they were used: a plan is followed only where it was not seen to lose
// against waiting for all. Costs that are wrong in a way that no correction of theirs can say lose
// a few cold starts by it, not all.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>

#include "base/recent_median.h"
#include "scheduler/coldstart/planner.h"

namespace tandem {

// Steps that are about alike: how many adapters, how many rows, and how long, in quarters of the
// step with all of them there, what is missing takes the link, each by doublings. The same when
// loads are ordered and, soon after, when the step is planned, whatever the order.
struct PlanSituation {
  std::uint8_t adapters = 0, rows = 0, link = 0;

  static PlanSituation of(const CostModel& costs, const PlanRequest& request);
  auto operator<=>(const PlanSituation&) const = default;  // NOLINT(*-nullptr)
};

// Seconds that a plan says its step takes, from when that begins.
double step_seconds(const PlanRequest& request, const HandoffPlan& plan);

// One thread.
class PlanMemory {
 public:
  enum class Way : std::uint8_t { wait, hand_over };

  // A step was planned to take `planned_s` in this way, and took `took_s`.
  void observe(PlanSituation situation, Way way, double planned_s, double took_s);

  // The way to go, if the plan that hands over takes `plan_s` and waiting `wait_s`, both as
  // predicted: each is taken for what such steps took of late, over what was predicted, or as
  // predicted where none is known. A plan that gains next to nothing is not followed. The answer
  // is the same until something is observed. Once in a hundred steps of a situation it is the other
  // way, if that is not much worse: else a way that was bad once would be left for good.
  Way choose(PlanSituation situation, double plan_s, double wait_s) const;

 private:
  struct Seen {
    std::array<RecentMedian<5>, 2> ratios;  // [Way]
    std::uint32_t steps = 0;
  };

  std::map<PlanSituation, Seen> seen_;
};

}  // namespace tandem
