// Learns a FactorTable from what was seen.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/recent_median.h"
#include "scheduler/costs/factor_table.h"

namespace tandem {

enum class Bound : std::uint8_t { at_most, at_least };

// One thread. observe() and bound() take no memory.
class FactorTracker {
 public:
  // Ratios of each bucket, oldest first: what is kept when an engine ends.
  using Lessons = std::array<std::vector<double>, FactorTable::kBuckets>;
  static constexpr std::size_t kRemembered = 7;
  static constexpr double kBoundSlack = 1.2;
  static constexpr double kNoWork = 0.1;
  static constexpr double kHeldUp = 4;

  // Of this size it took `seen` where the model without factors said `model`, which has to be above
  // 0. Each is remembered in its bucket until kRemembered more are; what counts is their median, so
  // that what was held up once means nothing: of two, the lesser. False: it is no measurement of
  // the same.
  bool observe(double size, double model, double seen);
  // The same of what is not seen any more once it is believed to take long. Where little is known
  // yet, what took more than kHeldUp times what is believed, and what the model says, does not
  // count (false, too); when the next does so as well, the lesser of both does.
  bool observe_doubting(double size, double model, double seen);

  // Of this size it took no more, or no less, than `seen`. Counts in each of the two buckets around
  // it that says otherwise by more than kBoundSlack. False: in none.
  bool bound(double size, double model, double seen, Bound side);
  // From now on as if of each size the least ratio alone had been seen, once, but for those below
  // kNoWork, unless there are no others: they say that it was hidden, not how long it is.
  void keep_least();

  // 1 until something was seen; then of the nearest buckets that know something.
  const FactorTable& table() const { return table_; }

  Lessons lessons() const;
  // As if they had been observed. What is no ratio that observe() would have taken is left out.
  void restore(const Lessons& lessons);

 private:
  void fill();

  std::array<RecentMedian<kRemembered>, FactorTable::kBuckets> buckets_;
  std::array<double, FactorTable::kBuckets> doubted_{};  // the last ratio, if it does not count yet
  FactorTable table_;
};

}  // namespace tandem
