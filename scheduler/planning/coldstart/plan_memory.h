// A table of what steps with cold rows really took: the ratios of measured to predicted time of the
// last steps, for each situation and each way. A way is taken only where it was not measured to be
// slower than another. Costs that are wrong in a way that no factor can correct then slow down a
// few cold starts, not all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/recent_median.h"
#include "scheduler/planning/coldstart/plan_situation.h"

namespace tandem {

// Predicted seconds of a step, by PlanWay. Infinity: the step has no such way, or the way equals
// another one.
using PlanSeconds = std::array<double, kNumPlanWays>;

// The part of a PlanMemory that is kept for the next engine start.
struct PlanLessons {
  static constexpr std::int64_t kVersion = 6;    // format of a situation's numbers
  static constexpr std::size_t kMostSeen = 512;  // situations

  struct Seen {
    PlanSituation situation;
    // [PlanWay]: measured over predicted step times as PlanMemory keeps them, oldest first.
    std::array<std::vector<double>, kNumPlanWays> ratios;
    std::uint32_t steps = 0;   // observed steps
    std::uint32_t starts = 0;  // engine starts since a step was observed
    bool operator==(const Seen&) const = default;
  };
  std::vector<Seen> seen;  // by last observation, latest last
  bool operator==(const PlanLessons&) const = default;
};

// Used by one thread. Keeps at most PlanLessons::kMostSeen situations and drops the one that was
// observed least recently.
class PlanMemory {
 public:
  static constexpr std::size_t kRemembered = 5;  // steps kept for each way

  // Adds a step that was predicted to take `planned_s` in this way, and took `took_s`.
  void observe(PlanSituation situation, PlanWay way, double planned_s, double took_s);

  // Counts a step that was not timed, as its workers were late or it failed: a way that is tried is
  // then not tried again at once.
  void pass(PlanSituation situation);

  // Returns the expected seconds of each way: the predicted ones times the ratio of its last steps.
  // A single ratio counts half; of two, the one nearer to 1 counts, or 1 if it lies between them.
  // `plan` without steps uses the ratio of `assist` and vice versa, as their costs are the same. If
  // both lack steps, the prediction stands.
  PlanSeconds expected(PlanSituation situation, const PlanSeconds& predicted) const;
  // Returns the way to take, by expected(). The answer is the same until a step is observed or
  // passed. Each other way is tried once in a hundred steps of a situation, more seldom the slower
  // it is (each costs at most half a percent of the steps' time): otherwise a way that was slow
  // once would never be taken again. A way that was taken until it was slow is tried three times
  // earlier, after 8, 16 and 32 steps without it, as workers are often held up for a few steps.
  PlanWay choose(PlanSituation situation, const PlanSeconds& predicted) const;
  // Returns the best way by these seconds alone. A way that gains next to nothing over waiting is
  // not taken, nor is `assist` if it gains next to nothing over the plan.
  static PlanWay promised(const PlanSeconds& predicted);

  std::size_t num_situations() const { return seen_.size(); }
  std::uint64_t observed() const { return observed_; }  // steps, of all situations

  PlanLessons lessons() const;
  // Adds for each way the ratio that was believed, as two steps: three of this engine outvote it,
  // or two that were faster. Skips situations that the last engines have not observed, and ratios
  // that observe() would not have kept.
  void restore(const PlanLessons& lessons);

 private:
  struct Seen {
    std::array<RecentMedian<kRemembered>, kNumPlanWays> ratios;  // [PlanWay]
    // [PlanWay], since the engine's start: `steps` after its last step (0: none), and the number of
    // other steps before that one.
    std::array<std::uint32_t, kNumPlanWays> taken{}, gap{};
    std::uint32_t steps = 0;
    std::uint32_t starts = 0;
    std::uint64_t last = 0;  // number of its last observation
  };
  Seen& of(PlanSituation situation);

  std::map<PlanSituation, Seen> seen_;
  std::uint64_t observed_ = 0;
};

}  // namespace tandem
