// Learns a FactorTable from measurements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/recent_median.h"
#include "scheduler/planning/costs/factor_table.h"

namespace tandem {

enum class Bound : std::uint8_t { at_most, at_least };

// Used by one thread. observe() and bound() do not allocate.
class FactorTracker {
 public:
  // Ratios of each bucket, oldest first, as kept for the next engine start.
  using Lessons = std::array<std::vector<double>, FactorTable::kBuckets>;
  static constexpr std::size_t kRemembered = 7;
  static constexpr double kBoundSlack = 1.2;
  static constexpr double kNoWork = 0.1;
  static constexpr double kHeldUp = 4;

  // Adds a measurement `seen` of something that takes `model` by the model without factors, above
  // 0. A bucket keeps its last kRemembered ratios and uses their median (of two, the lesser), so
  // that a single delay has no effect. Returns false if the values are no plausible measurement.
  bool observe(double size, double model, double seen);
  // The same for work that is avoided, and so not measured again, once it is believed to take long.
  // While a bucket has few ratios, one above kHeldUp times the believed ratio and 1 does not count
  // (returns false, too). If the next is as high, the lesser of both counts.
  bool observe_doubting(double size, double model, double seen);

  // Adds an upper or lower bound `seen`. It counts in each of the two buckets around the size that
  // contradicts it by more than kBoundSlack. Returns false if neither does.
  bool bound(double size, double model, double seen, Bound side);
  // Keeps only the least ratio of each bucket, as one measurement. Ratios below kNoWork are skipped
  // unless there are no others: they show that the work was hidden, not how long it takes.
  void keep_least();

  // 1 without any measurement; otherwise from the nearest buckets with measurements.
  const FactorTable& table() const { return table_; }

  Lessons lessons() const;
  // Adds the ratios as if observed, except those that observe() would reject.
  void restore(const Lessons& lessons);

 private:
  void fill();

  std::array<RecentMedian<kRemembered>, FactorTable::kBuckets> buckets_;
  std::array<double, FactorTable::kBuckets> doubted_{};  // the last ratio, if it does not count yet
  FactorTable table_;
};

}  // namespace tandem
