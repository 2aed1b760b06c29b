// When steps begin and end on a device: when the next one is planned (EnqueueTimer), when the
// device will be free (StepForecast), and for how long it had no work.
#pragma once

#include <optional>

#include "base/clock.h"
#include "engine/executor/enqueue_timer.h"
#include "engine/executor/step_forecast.h"

namespace tandem {

// For use by one thread.
class StepTimes {
 public:
  // `just_in_time` false: steps are always planned at once. `clock` outlives it.
  StepTimes(bool just_in_time, const Clock& clock) : just_in_time_(just_in_time), clock_(&clock) {}

  // When to begin planning the step behind the running one, for this kind of work, so that it is
  // enqueued shortly before the running one ends; no value: at once. Never later than the expected
  // end.
  std::optional<TimePoint> plan_at(Planning::Work next) const {
    return just_in_time_ ? timer_.plan_at(next) : std::nullopt;
  }
  // Says how the planning of the next step began; plan_at() learns from it.
  void planning(const Planning& planning) { planning_ = planning; }
  EnqueueCounts counts() const { return timer_.counts(); }
  // Seconds until a step that is enqueued now would begin; 0 without a cost model.
  double next_starts_in() const { return forecast_.busy_for(clock_->now()); }
  // Called when there is no work: the time until the next step counts as no gap.
  void rest() { idle_since_.reset(); }

  // The following calls are for the steps' pipeline.

  // The device has work now.
  void saw_work() { seen_busy_ = clock_->now(); }
  // Returns an upper bound of the device's idle time between the step before and this one: the
  // device was busy when last checked. `any`: steps are in flight. `busy`: the newest has not
  // ended.
  double gap(bool any, bool busy);
  // Adds a step behind those in flight, as EnqueueTimer. `model_s`: its time by the cost model, or
  // 0. `planned_s`: the time by the plan of a step with cold rows, or 0.
  void enqueued(const std::optional<StepKind>& kind, TimePoint launched, double gap_s,
                double model_s, double planned_s);
  // Removes the oldest step. `counts`: it ended without failure. `last`: no other is in flight.
  void ended(TimePoint now, bool counts, bool last);
  TimePoint last_end() const { return last_end_; }
  // Removes all steps in flight without using their times.
  void clear();
  // Forgets what was learnt of steps that were no work of a user.
  void forget() { timer_ = EnqueueTimer(); }

 private:
  bool just_in_time_;
  const Clock* clock_;
  EnqueueTimer timer_;                   // for the next step
  Planning planning_;                    // of the step being enqueued
  StepForecast forecast_;                // of the steps in flight
  std::optional<TimePoint> idle_since_;  // since when the device idles despite pending work
  TimePoint seen_busy_;                  // when the device was last seen to have work
  TimePoint last_end_;
};

}  // namespace tandem
