// Learns CostFactors from what steps and loads took: costs that were measured elsewhere, or on an
// idle machine, or never, heal while an engine serves.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/recent_median.h"
#include "scheduler/costs/cost_factors.h"
#include "scheduler/costs/factor_tracker.h"

namespace tandem {

// What an engine has learnt, to be kept until the next one begins: ratios of what was seen over
// what a cost model's figures say, oldest first.
struct CostLessons {
  std::array<FactorTracker::Lessons, kNumStallKinds> stalls;
  FactorTracker::Lessons layers;
  std::vector<double> link;

  // Of handing over, nothing is known.
  bool lacks_stalls() const {
    return std::ranges::all_of(stalls, [](const FactorTracker::Lessons& lessons) {
      return std::ranges::all_of(lessons, &std::vector<double>::empty);
    });
  }
  bool operator==(const CostLessons&) const = default;
};

// One thread. No allocation, but by lessons(). All seconds; `model_s` by the figures alone, without
// factors, and above 0.
class CostLearner {
 public:
  // The layers of one step that were handed over alike took `seen_s` longer than without.
  void observe_stall(StallKind kind, double model_s, double seen_s);
  // The layers of a step of `rows` rows that was enqueued operation by operation and waited for
  // nobody.
  void observe_layers(std::int32_t rows, double model_s, double seen_s);
  // Those of any step took no more, or no less, without what was waited for and handed over.
  void bound_layers(std::int32_t rows, double model_s, double seen_s, Bound side);
  // Loads that had the link to themselves. A link is as fast as it was at its best: others, answers
  // of workers among them, may have used it meanwhile.
  void observe_loads(double model_s, double seen_s);

  // Of handovers, for first costs: the least that was seen of each size, as one lesson. What is too
  // optimistic gets rows to workers, who teach better; what they are never given is never seen.
  void be_optimistic();

  const CostFactors& factors() const { return factors_; }
  // As they would be after be_optimistic().
  CostFactors optimistic_factors() const;
  std::uint64_t observed() const { return observed_; }

  CostLessons lessons() const;
  // As if they had been observed; what is not plausible is left out.
  void restore(const CostLessons& lessons);

 private:
  static constexpr std::size_t kRememberedLoads = 9;

  void count(bool counts);
  void take_factors();

  std::array<FactorTracker, kNumStallKinds> stalls_;
  FactorTracker layers_;
  RecentMedian<kRememberedLoads> link_;
  CostFactors factors_;
  std::uint64_t observed_ = 0;
};

}  // namespace tandem
