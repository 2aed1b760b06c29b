// What plans and single modes came to, where they were used: a plan is followed only where it was
// not seen to lose against waiting for all, or against workers for all. Costs that are wrong in a
// way that no correction of theirs can say lose a few cold starts by it, not all.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "base/recent_median.h"
#include "scheduler/coldstart/planner.h"

namespace tandem {

// Steps that are about alike: how many adapters, how many rows, how long after the step's begin, in
// quarters of it with all of them there, the last of them arrives, and for how many workers, each
// by doublings; and whether some of these slept until a moment before it. As a rule the same when
// loads are ordered and when the step is planned, whatever the order; an adapter that is resident
// by then counts in the first alone.
struct PlanSituation {
  std::uint8_t adapters = 0, rows = 0, link = 0, workers = 0, drowsy = 0;

  static PlanSituation of(const CostModel& costs, const PlanRequest& request);
  auto operator<=>(const PlanSituation&) const = default;  // NOLINT(*-nullptr)
};

// How a step with cold rows can go: each layer is waited for (the mode `pipelined`), as planned, or
// workers compute each layer until it is there (as `cpu_assist` does, but layer by layer).
enum class PlanWay : std::uint8_t { wait, plan, assist };
inline constexpr std::size_t kNumPlanWays = 3;
inline constexpr std::array<PlanWay, kNumPlanWays> kPlanWays = {PlanWay::wait, PlanWay::plan,
                                                                PlanWay::assist};
constexpr std::size_t index_of(PlanWay way) {
  return static_cast<std::size_t>(way);
}
// The way with the same costs; of `wait` that is itself.
constexpr PlanWay twin_of(PlanWay way) {
  if (way == PlanWay::wait) return way;
  return way == PlanWay::plan ? PlanWay::assist : PlanWay::plan;
}

// Seconds of a step by PlanWay, as predicted. Infinite: the step has no such way, or it is another
// one's.
using PlanSeconds = std::array<double, kNumPlanWays>;

// What is kept of a PlanMemory until the next engine begins.
struct PlanLessons {
  static constexpr std::int64_t kVersion = 5;    // of what a situation's numbers mean
  static constexpr std::size_t kMostSeen = 512;  // situations

  struct Seen {
    PlanSituation situation;
    // As PlanMemory keeps them, oldest first; [PlanWay].
    std::array<std::vector<double>, kNumPlanWays> ratios;
    std::uint32_t steps = 0;   // that were observed
    std::uint32_t starts = 0;  // of engines, since a step was seen
    bool operator==(const Seen&) const = default;
  };
  std::vector<Seen> seen;  // last the one that was seen last
  bool operator==(const PlanLessons&) const = default;
};

// Seconds that a plan says its step takes, from when that begins.
double step_seconds(const PlanRequest& request, const HandoffPlan& plan);

// One thread. Of more situations than PlanLessons::kMostSeen those are forgotten that were not seen
// for longest.
class PlanMemory {
 public:
  static constexpr std::size_t kRemembered = 5;  // steps of each way
  // Steps of a kind in situations that were not known, and after how many others they are
  // forgotten.
  static constexpr std::size_t kSurprises = 9;
  static constexpr std::uint64_t kForgotten = 256;
  static constexpr double kHeldUp = 3;
  static constexpr std::uint32_t kHopesAfter = 4;

  // A step was planned to take `planned_s` in this way, and took `took_s`. `taught`: costs learnt
  // from it what workers take.
  void observe(PlanSituation situation, PlanWay way, double planned_s, double took_s,
               bool taught = true);

  // What to expect of each way, by what such steps took of late, over what was predicted; of one
  // step alone half is believed, of two the one nearer to what was predicted, or what was
  // predicted, if that lies between them. Where none is known of `plan` or `assist`, by what the
  // other took, as their costs are the same; where none of either, by half of what it took in a
  // situation beside this one, for a step may lie on either side of a border, or, if that is more,
  // as late as the last ones were that handed over where nothing was known either: cores that
  // others want as well hold up whatever is handed over. Else as predicted.
  PlanSeconds expected(PlanSituation situation, const PlanSeconds& predicted) const;
  // The way to go, of what is to be expected of each. What gains next to nothing over waiting is
  // not done, nor, over the plan, `assist`. The answer is the same until something is observed.
  // Once in a hundred steps of a situation, or the more seldom the worse it is (half a percent of
  // their time is spent on each at the most), it is another way: else a way that was bad once would
  // be left for good. One that promises to be the best, by costs that have learnt from it as well,
  // was held up by something that may be over: it is tried after 4 steps of others, then after 8,
  // and where it took kHeldUp times as long, after 16 and 32, too; and after each 4 for as long as
  // one of its last steps was not held up. After 4, too, if what speaks against it was seen in
  // other situations only.
  //
  // `hoped_s`: what `assist` takes if workers are as quick as they ever were; of interest where
  // learns_nothing(). If it is far below all that is expected, `assist` is tried.
  PlanWay choose(PlanSituation situation, const PlanSeconds& predicted,
                 double hoped_s = std::numeric_limits<double>::infinity()) const;
  // Of the last steps none taught: what costs say of workers cannot heal by itself, for it is
  // because of them that steps do not. After kHopesAfter steps, and after twice as many each time
  // that `assist` was tried for it.
  bool learns_nothing(PlanSituation situation) const;
  // As choose(), of a situation of which nothing is known: by what was predicted alone.
  static PlanWay promised(const PlanSeconds& predicted);

  std::size_t num_situations() const { return seen_.size(); }
  std::uint64_t observed() const { return observed_; }  // steps, of all situations

  PlanLessons lessons() const;
  // As if a step of each way had been observed that took what was believed: two of this engine's
  // outvote it.
  // Situations that the last engines have not seen are left out, as is what observe() would not
  // have kept.
  void restore(const PlanLessons& lessons);

 private:
  struct Seen {
    std::array<RecentMedian<kRemembered>, kNumPlanWays> ratios;  // [PlanWay]
    std::array<bool, kNumPlanWays> kept{};  // the oldest ratio is one that restore() brought
    std::uint32_t steps = 0;
    std::array<std::uint32_t, kNumPlanWays> went{};  // `steps` when it was gone last
    std::uint32_t untaught = 0;                      // steps since one taught
    std::uint32_t hopes_after = kHopesAfter;         // so many of them
    std::uint32_t starts = 0;
    std::uint64_t last = 0;  // the number of the last observation of it

    bool learns_nothing() const { return untaught >= hopes_after; }
    bool knows_nothing_of(PlanWay way) const {
      return ratios[index_of(way)].known() == 0 && ratios[index_of(twin_of(way))].known() == 0;
    }
  };
  // Of steps that surprise alike: all is waited for, workers who were awake for long have part in
  // them, or workers who slept until a moment before.
  static std::size_t kind_of(PlanSituation situation, PlanWay way);
  // Seconds by which workers may hold up a step of which nothing is known: what the last such ones
  // took beyond what was predicted, less what those did that waited for all. 0: too few are known.
  double usual_surprise_s(PlanSituation situation) const;
  Seen& of(PlanSituation situation);

  std::map<PlanSituation, Seen> seen_;
  std::uint64_t observed_ = 0;
  // What steps took where nothing was known. Of this engine alone: it may be of this hour.
  struct Surprises {
    RecentMedian<kSurprises> late_s;  // beyond what was predicted
    std::uint64_t last = 0;           // as Seen
  };
  std::array<Surprises, 3> surprises_;  // [kind_of()]
};

}  // namespace tandem
