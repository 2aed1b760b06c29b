// Decides which rows of a step go to CPU workers: asks the cost model's planner, and lays its
// answer out for the step.
//
// Only the engine thread may use it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/adapters/device/load_queue.h"
#include "engine/adapters/host_tier.h"
#include "engine/handoff/handoff_options.h"
#include "engine/handoff/handoff_step.h"
#include "engine/handoff/mailbox_workers.h"
#include "engine/model/spec/model_spec.h"
#include "scheduler/planning/coldstart/admission.h"
#include "scheduler/planning/coldstart/plan_memory.h"
#include "scheduler/planning/coldstart/planner.h"
#include "scheduler/planning/coldstart/step_choice.h"
#include "scheduler/planning/costs/cost_learner.h"

namespace tandem {

// The costs and plans that a planner has learnt, for statistics.
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

class HandoffPlanner {
 public:
  // `whole_loads`: workers are offered all layers until the whole adapter has arrived (as in the
  // CaraServe paper); otherwise the options' planner decides. `host` and `clock` outlive the
  // planner.
  HandoffPlanner(const ModelSpec& config, std::int32_t num_devices, bool whole_loads,
                 const HandoffOptions& options, const HostTier& host, const Clock& clock);

  std::int32_t most_offers() const;           // of one step
  double step_time(std::int32_t rows) const;  // without cold rows
  // Takes the workers that can be given jobs now, one mask per mailbox; called before each plan().
  // When a missing worker (dead, or late with its answer) is back, the lessons are reset to their
  // state before the fault: times measured without it say nothing about later handovers, and a plan
  // that lost in that time would be avoided for long. A worker that is missing for a minute counts
  // as gone.
  void note_workers(std::span<const std::uint64_t> workers);
  // Updates the costs from a step with cold rows that ended without failure after `seconds`. The
  // other functions are as in Handoff.
  void learn(const HandoffStep& step, double seconds);
  void observe_step(std::int32_t rows, double seconds);
  void observe_loads(double model_s, double seen_s);
  void be_optimistic();  // as CostLearner
  const CostModel& costs() const { return costs_; }
  // learning() and lessons() may be called by any thread.
  EngineLessons lessons() const;
  HandoffLearning learning() const;
  // Replaces the options' planner, and returns the planner that it replaces.
  HandoffOptions::Planner plan_by(HandoffOptions::Planner planner);
  bool whole_loads() const { return whole_loads_; }

  // As Handoff::admission. `workers`: one per mailbox.
  AdmissionPlan admission(std::span<const AdapterRows> waiting, std::span<const AdapterRows> loads,
                          std::int32_t rows, double starts_in,
                          std::span<const MailboxWorkers> workers,
                          const LoadQueue& under_way) const;

  // Fills in the groups, layers, waits, offers and planned time of `step`. A step without offers
  // has no groups. While some workers are waking, the awake ones get all groups if the step is
  // expected to end sooner that way than if it waits for the others.
  void plan(std::span<const AdapterRows> cold, std::int32_t step_rows, double starts_in,
            std::span<const MailboxWorkers> workers, const LoadQueue& under_way,
            HandoffStep& step) const;

 private:
  struct Candidate;
  std::vector<Candidate> choose(std::span<const AdapterRows> cold,
                                std::span<const MailboxWorkers> workers,
                                const LoadQueue& under_way) const;
  static void leave_out_sleepers(std::span<const MailboxWorkers> workers,
                                 std::span<Candidate> candidates);
  ColdAdapter times_of(const AdapterRows& cold, const ArrivingAdapter& arriving,
                       TimePoint now) const;
  StepChoice plan_step(const CostModel& costs, const PlanRequest& request) const;
  PlanRequest request_for(std::int32_t rows, double starts_in) const;
  PlanRequest request_for_step(std::span<const Candidate> candidates, std::int32_t step_rows,
                               double starts_in) const;
  StepChoice choose_layers(std::span<const Candidate> candidates, const PlanRequest& request) const;
  void add_group(const Candidate& candidate, HandoffStep& step) const;
  void lay_out(std::span<const Candidate> candidates, const HandoffPlan& plan,
               HandoffStep& step) const;

  const ModelSpec config_;
  const std::int32_t num_devices_;  // that share the model
  const bool whole_loads_;
  const std::int32_t max_rows_;
  const std::int32_t num_mailboxes_;
  CostModel costs_;
  mutable std::mutex learner_mutex_;  // guards what other threads read; held briefly
  CostLearner learner_;
  HandoffOptions::Planner plan_;  // null: plan_handoff(), corrected by memory_
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
  const HostTier* host_;
  const Clock* clock_;
  // The limit of one step. The ring of group jobs holds the jobs of all steps in flight at once,
  // and has to have room for a wrap.
  const std::int32_t max_groups_;
};

}  // namespace tandem
