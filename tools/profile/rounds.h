// Measuring by turns: the statistics that a profile's figures rest on.
//
// A case that is timed in one go shows what the machine did in that moment. Cases that are timed by
// turns, a round of all of them after the other, share a disturbance and a drift of the clock, and
// the median over the rounds forgets both as long as they last for less than half of the time.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

// Requires values.
double median_of(std::vector<double> values);

// The median, and the interval that holds the median of all values that could have been seen, in 95
// of 100 samples: from the k-th smallest to the k-th largest, whatever the values' distribution.
// Below six values none is that sure: theirs is the whole range.
struct MedianInterval {
  double median = 0, low = 0, high = 0;

  // The farther end's distance from the median, over the median: 0.03. 1 for a median of zero whose
  // interval is more than a point.
  double spread() const;
};
MedianInterval median_interval(std::vector<double> values);  // requires values

// Times `count` cases in `rounds` rounds at most, and begins none after `budget_s` seconds but the
// first. The median of each case, in seconds. An error of a case ends it.
Result<std::vector<double>> time_by_turns(const Clock& clock, std::size_t count, int rounds,
                                          double budget_s,
                                          const std::function<Result<double>(std::size_t)>& time);

}  // namespace tandem
