// The signals by which a device sees loads in flight, and the time that the link takes for them.
#pragma once

#include <algorithm>

#include "base/clock.h"
#include "engine/adapters/cold_start_log.h"

namespace tandem {

struct LoadSignals {
  enum class Words {
    none,    // readers of a loading adapter wait for its events
    whole,   // the ready words of the row after the last layer, at the end
    layers,  // these and the words of every layer
  };
  Words words = Words::none;
  double link_bytes_per_s = 50e9;
  double copy_s = 2e-6;  // of each copy, in addition to its bytes
  // For LayerArrival and the times of loads. Outlives the queue. Null is allowed with `none`: loads
  // are not timed then.
  const Clock* clock = nullptr;
  ColdStartLog* cold_starts = nullptr;  // records loads; outlives the queue

  bool has_words() const { return words != Words::none; }
};

// The time at which the link is expected to have copied all that is queued for it. For use by one
// thread.
class LinkForecast {
 public:
  // In the past if the link is idle.
  TimePoint free_at() const { return free_at_; }
  // The factor by which copies take longer than LoadSignals says.
  void set_factor(double factor) { factor_ = factor; }
  // More copies follow at `now`. An idle link is free, even if it was expected to wait for a disk
  // that turned out to be faster.
  void resume(TimePoint now, bool is_idle) { free_at_ = is_idle ? now : std::max(free_at_, now); }
  // Adds copies of `seconds` by LoadSignals, which cannot begin before `earliest`. Returns when
  // they are expected to begin.
  TimePoint add(double seconds, TimePoint earliest) {
    const TimePoint begins = std::max(free_at_, earliest);
    free_at_ = begins + duration_of(seconds * factor_);
    return begins;
  }

 private:
  TimePoint free_at_{};
  double factor_ = 1;
};

}  // namespace tandem
