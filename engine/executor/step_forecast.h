// When the device will have finished the steps under way: by the cost model, and by how far that
// was off for the steps before. What a load's lead over its step is worth hangs on it.
#pragma once

#include <array>
#include <cstddef>

#include "base/clock.h"
#include "base/recent_median.h"
#include "engine/model/step/steps_in_flight.h"

namespace tandem {

// One thread.
class StepForecast {
 public:
  // A step was put behind those under way. Of one that was recorded, `model_s` is what the cost
  // model says, which follows the others: it teaches pace(). `planned_s` is what the model, or the
  // plan of one with cold rows, says of any other.
  void add(TimePoint now, double model_s) { add(now, {model_s, true}); }
  void add_planned(TimePoint now, double planned_s) { add(now, {planned_s, false}); }
  // The oldest has ended; `counts`: well, so that its time says something.
  void end_oldest(TimePoint now, bool counts);

  // Nothing is under way any more, and nothing was learnt.
  void clear() { num_steps_ = 0; }

  // Seconds until all under way have ended. One that is overdue may end at any time; those behind
  // it still take all of theirs.
  double busy_for(TimePoint now) const;

  // What recorded steps take, over what the model says. The median of the last ones, so that a
  // single hiccup means nothing; 1 while few are known.
  double pace() const { return pace_; }

 private:
  struct Step {
    double seconds = 0;
    bool by_model = false;
  };
  static constexpr std::size_t kRemembered = 9;
  static constexpr std::size_t kFewest = 3;

  void add(TimePoint now, Step step);
  void learn(double ratio);

  std::array<Step, kMaxStepsInFlight> steps_;  // oldest first
  std::size_t num_steps_ = 0;
  TimePoint begun_;  // the oldest
  RecentMedian<kRemembered> ratios_;
  double pace_ = 1;
};

}  // namespace tandem
