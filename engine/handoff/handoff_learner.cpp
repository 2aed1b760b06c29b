#include "engine/handoff/handoff_learner.h"

#include <chrono>

#include "engine/handoff/step_lessons.h"

namespace tandem {

HandoffLearner::HandoffLearner(const ModelSpec& config, const CostModel& costs,
                               const EngineLessons& lessons, const Clock& clock)
    : config_(config), clock_(&clock), costs_(costs) {
  learner_.restore(lessons.costs);
  memory_.restore(lessons.plans);
  costs_.factors = learner_.factors();
}

double HandoffLearner::step_time(std::int32_t rows) const {
  return costs_.layer_time(rows) * static_cast<double>(config_.num_layers());
}

void HandoffLearner::note_workers(std::span<const std::uint64_t> workers) {
  all_workers_.resize(workers.size());
  live_workers_.resize(workers.size());
  bool were_missing = false, lost = false, joined = false;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    were_missing |= (all_workers_[i] & ~live_workers_[i]) != 0;
    lost |= (live_workers_[i] & ~workers[i]) != 0;
    joined |= (workers[i] & ~live_workers_[i]) != 0;
    all_workers_[i] |= workers[i];
    live_workers_[i] = workers[i];
  }
  // Faults within this time of each other count as one, as little that is learnt between them is
  // valid. A worker that is missing for longer counts as gone, and lessons without it are valid.
  constexpr std::chrono::seconds kTogether{60};
  const TimePoint now = clock_->now();
  if (lost || joined) {
    workers_changed_ = now;
  } else if (were_missing && now - workers_changed_ > kTogether) {
    all_workers_ = live_workers_;
    before_faults_.reset();
  }
  if (lost && (!before_faults_ || (!were_missing && now - faults_ended_ > kTogether))) {
    before_faults_ = Learnt{learner_, memory_};
  }
  if (!joined || !were_missing || !before_faults_) return;
  const std::lock_guard lock(learner_mutex_);
  learner_ = before_faults_->costs;
  memory_ = before_faults_->plans;
  costs_.factors = learner_.factors();
  faults_ended_ = now;
}

void HandoffLearner::learn(const HandoffStep& step, double seconds) {
  const bool handed = !step.groups.empty();
  const std::lock_guard lock(learner_mutex_);
  const bool layers_were_off = learn_layers(costs_, step, seconds, learner_);
  if (handed && !layers_were_off) learn_stalls(config_, costs_, step, learner_);
  costs_.factors = learner_.factors();
  if (!step.is_chosen) return;
  memory_.observe(step.chosen.situation, step.chosen.way, step.planned_s, seconds);
  if (handed) {
    ++plans_followed_;
  } else if (step.chosen.given_up) {
    ++plans_given_up_;
  }
}

void HandoffLearner::pass(const HandoffStep& step) {
  const std::lock_guard lock(learner_mutex_);
  memory_.pass(step.chosen.situation);
}

void HandoffLearner::observe_step(std::int32_t rows, double seconds) {
  const auto layers = static_cast<double>(config_.num_layers());
  const std::lock_guard lock(learner_mutex_);
  learner_.observe_layers(rows, costs_.modelled_layer(rows) * layers, seconds);
  costs_.factors = learner_.factors();
}

void HandoffLearner::observe_loads(double model_s, double seen_s) {
  const std::lock_guard lock(learner_mutex_);
  learner_.observe_loads(model_s, seen_s);
  costs_.factors = learner_.factors();
}

void HandoffLearner::be_optimistic() {
  const std::lock_guard lock(learner_mutex_);
  learner_.be_optimistic();
  costs_.factors = learner_.factors();
}

EngineLessons HandoffLearner::lessons() const {
  const std::lock_guard lock(learner_mutex_);
  return {learner_.lessons(), memory_.lessons()};
}

HandoffLearning HandoffLearner::learning() const {
  const std::lock_guard lock(learner_mutex_);
  return {.factors = learner_.factors(),
          .lessons = learner_.lessons(),
          .observed = learner_.observed(),
          .situations = memory_.num_situations(),
          .plans_followed = plans_followed_,
          .plans_given_up = plans_given_up_};
}

}  // namespace tandem
