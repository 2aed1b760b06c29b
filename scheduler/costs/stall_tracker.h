// Learns StallFactors from steps that handed layers over: costs that were measured elsewhere, or on
// an idle machine, heal while an engine serves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/recent_median.h"
#include "scheduler/costs/stall_factors.h"

namespace tandem {

// One thread. No allocation.
class StallTracker {
 public:
  // The layers of one step that were handed over alike took `seen_s` longer than without, and
  // `model_s` by the model without factors, which has to be above 0. Each is remembered in its
  // bucket until kRemembered more are; what counts is their median, so that a worker that was held
  // up once means nothing.
  void observe(StallKind kind, double model_s, double seen_s);

  // 1 until something of the kind was seen; then of the nearest bucket that knows something.
  const StallFactors& factors() const { return factors_; }
  std::uint64_t observed() const { return observed_; }

 private:
  static constexpr std::size_t kRemembered = 7;
  static constexpr double kLeast = 0.05, kMost = 20;  // beyond, it is no measurement of the same

  using Buckets = std::array<RecentMedian<kRemembered>, StallFactors::kBuckets>;

  static void fill(const Buckets& buckets, StallFactors::Table& table);

  std::array<Buckets, kNumStallKinds> kinds_;
  StallFactors factors_;
  std::uint64_t observed_ = 0;
};

}  // namespace tandem
