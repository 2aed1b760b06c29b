// Learns CostFactors from measured steps and loads, while an engine serves. This corrects costs
// that were measured elsewhere, on an idle machine, or never.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/recent_median.h"
#include "scheduler/planning/costs/cost_factors.h"
#include "scheduler/planning/costs/factor_tracker.h"

namespace tandem {

// The ratios that an engine has learnt, kept for its next start: measured time over the cost
// model's time, oldest first.
struct CostLessons {
  std::array<FactorTracker::Lessons, kNumStallKinds> stalls;
  FactorTracker::Lessons layers;
  std::vector<double> link;

  // Whether there are no measurements of handovers.
  bool lacks_stalls() const {
    return std::ranges::all_of(stalls, [](const FactorTracker::Lessons& lessons) {
      return std::ranges::all_of(lessons, &std::vector<double>::empty);
    });
  }
  bool operator==(const CostLessons&) const = default;
};

// Used by one thread. Only lessons() allocates. Times are in seconds; `model_s` is the model's time
// without factors, above 0.
class CostLearner {
 public:
  // Adds the time by which handovers of one kind lengthened the layers of one step.
  void observe_stall(StallKind kind, double model_s, double seen_s);
  // Adds the time of the layers of a step of `rows` rows that was enqueued operation by operation
  // and waited for nothing.
  void observe_layers(std::int32_t rows, double model_s, double seen_s);
  // Adds an upper or lower bound of the time of any step's layers without waits and handovers.
  void bound_layers(std::int32_t rows, double model_s, double seen_s, Bound side);
  // Adds loads that were alone on the link. The factor follows the fastest ones, because other
  // transfers, such as workers' answers, may have used the link meanwhile.
  void observe_loads(double model_s, double seen_s);

  // For first costs: keeps the least ratio of handovers of each size, as one measurement. Costs
  // that are too low give rows to workers and are corrected; costs that are too high are never
  // measured.
  void be_optimistic();

  const CostFactors& factors() const { return factors_; }
  std::uint64_t observed() const { return observed_; }

  CostLessons lessons() const;
  // Adds the ratios as if observed; implausible ones are skipped.
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
