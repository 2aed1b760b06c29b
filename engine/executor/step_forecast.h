// Forecasts when the device will have finished the steps in flight, from the cost model and its
// error for earlier steps. The forecast decides how much a load's lead over its step is worth.
#pragma once

#include <array>
#include <cstddef>

#include "base/clock.h"
#include "base/recent_median.h"
#include "engine/model/step/steps_in_flight.h"

namespace tandem {

// For use by one thread.
class StepForecast {
 public:
  // Adds a step behind those in flight. add() is for a step that ran as a graph: `model_s` is the
  // cost model's time, which follows steps without graphs, so it is multiplied by pace(), and the
  // step updates pace(). add_planned() is for any other step: `planned_s` comes from the model, or
  // from the plan of a step with cold rows.
  void add(TimePoint now, double model_s) { add(now, {model_s, true}); }
  void add_planned(TimePoint now, double planned_s) { add(now, {planned_s, false}); }
  // Removes the oldest step. `counts`: it ended without failure, so its time may update pace().
  void end_oldest(TimePoint now, bool counts);

  // Removes all steps in flight without updating pace().
  void clear() { num_steps_ = 0; }

  // Seconds until all steps in flight have ended. An overdue step may end at any time; the steps
  // behind it still need all of their time.
  double busy_for(TimePoint now) const;

  // Time of steps that ran as graphs over the model's time: the median of the latest ones, so that
  // a single outlier has no effect; 1 until some are known.
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
  TimePoint begun_;  // when the oldest step began
  RecentMedian<kRemembered> ratios_;
  double pace_ = 1;
};

}  // namespace tandem
