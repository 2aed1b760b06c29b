// The lessons of the handoff's steps: the costs of this machine, and how plans fared.
//
// Only the engine thread may use it, except where a comment says otherwise.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/handoff/handoff_step.h"
#include "engine/model/spec/model_spec.h"
#include "scheduler/planning/coldstart/engine_lessons.h"
#include "scheduler/planning/coldstart/plan_memory.h"
#include "scheduler/planning/costs/cost_learner.h"
#include "scheduler/planning/costs/cost_model.h"

namespace tandem {

// For statistics.
struct HandoffLearning {
  CostFactors factors;
  CostLessons lessons;           // the factors are computed from these
  std::uint64_t observed = 0;    // lessons since the start, including forgotten ones
  std::uint64_t situations = 0;  // as PlanMemory::num_situations()
  // Ended steps for which a plan promised a shorter time.
  std::uint64_t plans_followed = 0;
  std::uint64_t plans_given_up = 0;
  double worker_wake_s = 0;  // as Mailboxes::worker_wake_s()
};

class HandoffLearner {
 public:
  // Begins with `costs` and with what earlier engines have learnt. `clock` outlives it.
  HandoffLearner(const ModelSpec& config, const CostModel& costs, const EngineLessons& lessons,
                 const Clock& clock);

  const CostModel& costs() const { return costs_; }
  const PlanMemory& memory() const { return memory_; }
  double step_time(std::int32_t rows) const;  // without cold rows

  // Takes the workers that can be given jobs now, one mask per mailbox; called before each step is
  // planned. When a missing worker (dead, or late with its answer) is back, the lessons are reset
  // to their state before the fault: times measured without it say nothing about later handovers,
  // and a plan that lost in that time would be avoided for long. A worker that is missing for a
  // minute counts as gone.
  void note_workers(std::span<const std::uint64_t> workers);
  // For a step with cold rows that ended without failure after `seconds`.
  void learn(const HandoffStep& step, double seconds);
  // For a step with cold rows that failed, or whose workers were late.
  void pass(const HandoffStep& step);
  // For a step that handed nothing over, waited for no load and ran without a graph.
  void observe_step(std::int32_t rows, double seconds);
  // As CostLearner.
  void observe_loads(double model_s, double seen_s);
  void be_optimistic();

  // Any thread.
  EngineLessons lessons() const;
  HandoffLearning learning() const;

 private:
  const ModelSpec config_;
  const Clock* clock_;
  CostModel costs_;
  mutable std::mutex learner_mutex_;  // guards what other threads read; held briefly
  CostLearner learner_;
  PlanMemory memory_;
  std::uint64_t plans_followed_ = 0, plans_given_up_ = 0;
  // Only note_workers() uses these.
  struct Learnt {
    CostLearner costs;
    PlanMemory plans;
  };
  std::vector<std::uint64_t> all_workers_, live_workers_;  // [mailboxes]: expected; live
  std::optional<Learnt> before_faults_;
  TimePoint workers_changed_, faults_ended_;
};

}  // namespace tandem
