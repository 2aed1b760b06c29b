#include "engine/executor/step_times.h"

#include <algorithm>

namespace tandem {

double StepTimes::gap(bool any, bool busy) {
  const TimePoint now = clock_->now();
  if (busy) seen_busy_ = now;
  if (!any) return idle_since_ ? seconds_between(*idle_since_, now) : 0;
  return seconds_between(seen_busy_, now);
}

void StepTimes::enqueued(const std::optional<StepKind>& kind, TimePoint launched, double gap_s,
                         double model_s, double planned_s) {
  if (kind && kind->recorded) {
    forecast_.add(launched, model_s);
  } else {
    forecast_.add_planned(launched, std::max(model_s, planned_s));
  }
  timer_.enqueued(kind, planning_, launched, gap_s);
}

void StepTimes::ended(TimePoint now, bool counts, bool last) {
  forecast_.end_oldest(now, counts);
  timer_.ended(now, counts);
  last_end_ = now;
  seen_busy_ = now;
  if (last) idle_since_ = now;
}

void StepTimes::clear() {
  forecast_.clear();
  timer_.clear();
  idle_since_.reset();
}

}  // namespace tandem
