// Measured step times of plans and of single modes. A plan is followed only where it was not
// measured to be slower than waiting for all weights or than workers for all layers. Costs that are
// wrong in a way that no factor can correct then slow down a few cold starts, not all.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "base/recent_median.h"
#include "scheduler/planning/coldstart/planner.h"

namespace tandem {

// A class of similar steps: number of adapters, number of rows, time from the start of the step to
// the last arrival (in quarters of the step's time with all adapters resident) and number of
// workers, each by doublings; and whether some workers slept until just before the step. Usually it
// is the same when loads are ordered and when the step is planned, whatever the order. An adapter
// that has become resident in between counts only at the former.
struct PlanSituation {
  std::uint8_t adapters = 0, rows = 0, link = 0, workers = 0, drowsy = 0;

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
// The other way with the same costs; for `wait`, `wait` itself.
constexpr PlanWay twin_of(PlanWay way) {
  if (way == PlanWay::wait) return way;
  return way == PlanWay::plan ? PlanWay::assist : PlanWay::plan;
}

// Predicted seconds of a step, by PlanWay. Infinity: the step has no such way, or the way equals
// another one.
using PlanSeconds = std::array<double, kNumPlanWays>;

// The part of a PlanMemory that is kept for the next engine start.
struct PlanLessons {
  static constexpr std::int64_t kVersion = 5;    // format of a situation's numbers
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

// Predicted seconds of the plan's step, from the start of the step.
double step_seconds(const PlanRequest& request, const HandoffPlan& plan);

// Used by one thread. Keeps at most PlanLessons::kMostSeen situations and drops the one that was
// observed least recently.
class PlanMemory {
 public:
  static constexpr std::size_t kRemembered = 5;  // steps kept for each way
  // Steps kept of each kind (kind_of()) in situations without measurements, and the number of
  // further observations after which they are dropped.
  static constexpr std::size_t kSurprises = 9;
  static constexpr std::uint64_t kForgotten = 256;
  static constexpr double kHeldUp = 3;
  static constexpr std::uint32_t kHopesAfter = 4;

  // Adds a step that was predicted to take `planned_s` in this way, and took `took_s`. `taught`:
  // the costs have learnt from it how long workers take.
  void observe(PlanSituation situation, PlanWay way, double planned_s, double took_s,
               bool taught = true);

  // Returns the expected seconds of each way: the predicted ones times the ratio of measured to
  // predicted time in its last steps. A single ratio counts half; of two, the one nearer to 1
  // counts, or 1 if it lies between them. `plan` without steps uses the ratio of `assist` and vice
  // versa, as their costs are the same. If both lack steps, half the ratio of a neighbouring
  // situation counts, as a step may lie on either side of a border; or, if that is later, the usual
  // delay of steps with workers in situations without measurements is added: cores that others want
  // as well delay all work of workers. Otherwise the prediction stands.
  PlanSeconds expected(PlanSituation situation, const PlanSeconds& predicted) const;
  // Returns the way to take, by expected(). A way that gains next to nothing over waiting is not
  // taken, nor is `assist` if it gains next to nothing over the plan. The answer is the same until
  // a step is observed. Once in a hundred steps of a situation another way is tried, more seldom
  // the slower it is (each costs at most half a percent of the steps' time): otherwise a way that
  // was slow once would never be taken again. A way with the best prediction, by costs that have
  // learnt from its steps, may have been delayed by something that is over: it is tried after 4
  // steps of other ways, then after 8, and, if it took kHeldUp times as long, also after 16 and 32;
  // and after every 4 while one of its last steps was not delayed. It is tried after 4, too, if
  // only other situations speak against it.
  //
  // `hoped_s`: seconds of `assist` if workers are as fast as they were ever measured; used where
  // learns_nothing(). `assist` is tried if that is far below what is expected of the best way.
  PlanWay choose(PlanSituation situation, const PlanSeconds& predicted,
                 double hoped_s = std::numeric_limits<double>::infinity()) const;
  // Whether none of the last steps taught the costs about workers. Wrong worker costs cannot
  // correct themselves then, because they keep steps from using workers. True after kHopesAfter
  // steps, and after twice as many each time that `assist` was tried for this reason.
  bool learns_nothing(PlanSituation situation) const;
  // Returns the way of choose() by these seconds alone, as for a situation without measurements.
  static PlanWay promised(const PlanSeconds& predicted);

  std::size_t num_situations() const { return seen_.size(); }
  std::uint64_t observed() const { return observed_; }  // steps, of all situations

  PlanLessons lessons() const;
  // Adds for each way one step with the ratio that was believed; two steps of this engine outvote
  // it. Skips situations that the last engines have not observed, and ratios that observe() would
  // not have kept.
  void restore(const PlanLessons& lessons);

 private:
  struct Seen {
    std::array<RecentMedian<kRemembered>, kNumPlanWays> ratios;  // [PlanWay]
    std::array<bool, kNumPlanWays> kept{};  // the oldest ratio is from restore()
    std::uint32_t steps = 0;
    std::array<std::uint32_t, kNumPlanWays> went{};  // `steps` at its last step
    std::uint32_t untaught = 0;                      // steps since the last that taught
    std::uint32_t hopes_after = kHopesAfter;         // `untaught` for learns_nothing()
    std::uint32_t starts = 0;
    std::uint64_t last = 0;  // number of its last observation

    bool learns_nothing() const { return untaught >= hopes_after; }
    bool knows_nothing_of(PlanWay way) const {
      return ratios[index_of(way)].known() == 0 && ratios[index_of(twin_of(way))].known() == 0;
    }
  };
  // The kind of a step whose delays are kept together: it waits for all weights (0), or uses
  // workers that were awake for long (1) or that slept until just before (2).
  static std::size_t kind_of(PlanSituation situation, PlanWay way);
  // Expected delay by workers in a step without measurements: the excess over the prediction in the
  // last such steps, minus that of such steps that waited for all weights. 0 if too few are known.
  double usual_surprise_s(PlanSituation situation) const;
  Seen& of(PlanSituation situation);

  std::map<PlanSituation, Seen> seen_;
  std::uint64_t observed_ = 0;
  // Delays of steps in situations without measurements. Not kept for the next engine start, as they
  // may be temporary.
  struct Surprises {
    RecentMedian<kSurprises> late_s;  // beyond the prediction
    std::uint64_t last = 0;           // as in Seen
  };
  std::array<Surprises, 3> surprises_;  // [kind_of()]
};

}  // namespace tandem
