// When the device will have finished the steps under way: by the cost model, and by how far that
// was off for the steps before. What a load's lead over its step is worth hangs on it.
//
// Steps that were recorded have a pace of their own: the model follows the others.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "base/clock.h"
#include "base/recent_median.h"
#include "engine/model/steps_in_flight.h"

namespace tandem {

// One thread.
class StepForecast {
 public:
  enum class Kind { recorded, plain };

  // A step was put behind those under way. Of one that hands nothing over, `model_s` is what the
  // cost model says: it teaches pace(). Of one with cold rows, `planned_s` is what its plan says.
  void add(TimePoint now, double model_s, Kind kind) { add(now, {model_s, kind}); }
  void add_planned(TimePoint now, double planned_s) { add(now, {planned_s, std::nullopt}); }
  // The oldest has ended; `counts`: well, so that its time says something.
  void end_oldest(TimePoint now, bool counts);

  // Nothing is under way any more, and nothing was learnt.
  void clear() { num_steps_ = 0; }

  // Seconds until all under way have ended. One that is overdue may end at any time; those behind
  // it still take all of theirs.
  double busy_for(TimePoint now) const;

  // What steps take, over what the model says. The median of the last ones, so that a single
  // hiccup means nothing; 1 while few are known.
  double pace(Kind kind) const;

 private:
  struct Step {
    double seconds = 0;
    std::optional<Kind> by_model;
  };
  static constexpr std::size_t kRemembered = 9;
  static constexpr std::size_t kFewest = 3;

  void add(TimePoint now, Step step);

  std::array<Step, kMaxStepsInFlight> steps_;  // oldest first
  std::size_t num_steps_ = 0;
  TimePoint begun_;                                  // the oldest
  std::array<RecentMedian<kRemembered>, 2> ratios_;  // [Kind]
};

}  // namespace tandem
