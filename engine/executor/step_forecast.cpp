#include "engine/executor/step_forecast.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {

void StepForecast::add(TimePoint now, Step step) {
  TANDEM_CHECK(num_steps_ < kMaxStepsInFlight, "{} steps under way", num_steps_);
  if (num_steps_ == 0) begun_ = now;
  steps_[num_steps_++] = step;
}

void StepForecast::end_oldest(TimePoint now, bool counts) {
  TANDEM_CHECK(num_steps_ > 0, "no step is under way");
  const Step& ended = steps_.front();
  if (counts && ended.by_model && ended.seconds > 0) {
    learn(seconds_between(begun_, now) / ended.seconds);
  }
  std::shift_left(steps_.begin(), steps_.end(), 1);
  --num_steps_;
  begun_ = now;
}

double StepForecast::busy_for(TimePoint now) const {
  double seconds = 0;
  for (std::size_t i = 0; i < num_steps_; ++i) {
    double left = steps_[i].seconds * (steps_[i].by_model ? pace_ : 1);
    if (i == 0) left = std::max(0.0, left - std::max(0.0, seconds_between(begun_, now)));
    seconds += left;
  }
  return seconds;
}

void StepForecast::learn(double ratio) {
  ratios_.add(ratio);
  if (ratios_.known() >= kFewest) pace_ = ratios_.median();
}

}  // namespace tandem
