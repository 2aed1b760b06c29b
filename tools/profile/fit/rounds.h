// Measuring in rounds: the statistics behind a profile's figures.
//
// A case that is timed in one go depends on what the machine did at that moment. If all cases are
// timed once per round, they share disturbances and clock drift, and the median over the rounds
// ignores both if they last for less than half of the time.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

// Requires values.
double median_of(std::vector<double> values);

// The median, and an interval that contains the true median in 95 of 100 samples: from the k-th
// smallest to the k-th largest value, for any distribution. Fewer than six values cannot give that
// confidence: their interval is the whole range.
struct MedianInterval {
  double median = 0, low = 0, high = 0;

  // The distance of the farther end from the median, divided by the median: 0.03. 1 for a median of
  // zero whose interval is not a single point.
  double spread() const;
};
MedianInterval median_interval(std::vector<double> values);  // requires values

// Times `count` cases in at most `rounds` rounds, and begins no round but the first after
// `budget_s` seconds. Returns the median of each case, in seconds. An error of a case ends it.
Result<std::vector<double>> time_by_turns(const Clock& clock, std::size_t count, int rounds,
                                          double budget_s,
                                          const std::function<Result<double>(std::size_t)>& time);

}  // namespace tandem
