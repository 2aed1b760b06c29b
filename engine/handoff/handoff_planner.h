// Which rows of a step go to CPU workers: what the cost model's planner is asked, and how its
// answer is laid out for the step.
//
// The engine thread alone uses it.
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
#include "scheduler/coldstart/admission.h"
#include "scheduler/coldstart/plan_memory.h"
#include "scheduler/coldstart/planner.h"
#include "scheduler/coldstart/step_choice.h"
#include "scheduler/costs/cost_learner.h"

namespace tandem {

// What a planner has learnt, for people who look on.
struct HandoffLearning {
  CostFactors factors;
  CostLessons lessons;           // that the factors come from
  std::uint64_t observed = 0;    // lessons since the start, remembered or not
  std::uint64_t situations = 0;  // as PlanMemory
  // Steps that have ended and that plans were to shorten.
  std::uint64_t plans_followed = 0;
  std::uint64_t plans_given_up = 0;
  double worker_wake_s = 0;  // as Mailboxes
};

class HandoffPlanner {
 public:
  // `whole_loads`: all layers are offered until all of an adapter is there (the CaraServe paper's
  // way); else the options' planner decides. `host` and `clock` outlive it.
  HandoffPlanner(const ModelSpec& config, std::int32_t num_devices, bool whole_loads,
                 const HandoffOptions& options, const HostTier& host, const Clock& clock);

  std::int32_t most_offers() const;           // of a step
  double step_time(std::int32_t rows) const;  // without cold rows
  // The workers that could be handed anything now, by mailbox, before each plan(). When one is back
  // that was missing (it died, or did not answer), what was learnt is again what it was before:
  // what handovers took meanwhile says nothing of those that come, and a plan that was seen to lose
  // then would be left alone for long. Who is missing for a minute is no longer expected.
  void note_workers(std::span<const std::uint64_t> workers);
  // Costs follow what was seen: of a step with cold rows that has ended well after `seconds`, and
  // as Handoff.
  void learn(const HandoffStep& step, double seconds);
  void observe_step(std::int32_t rows, double seconds);
  void observe_loads(double model_s, double seen_s);
  void be_optimistic();  // as CostLearner
  const CostModel& costs() const { return costs_; }
  // Any thread.
  EngineLessons lessons() const;
  HandoffLearning learning() const;
  // From now on, instead of the options' planner; returns what did until now.
  HandoffOptions::Planner plan_by(HandoffOptions::Planner planner);
  bool whole_loads() const { return whole_loads_; }

  // As Handoff::admission. `workers`: by mailbox.
  AdmissionPlan admission(std::span<const AdapterRows> waiting, std::span<const AdapterRows> loads,
                          std::int32_t rows, double starts_in,
                          std::span<const MailboxWorkers> workers,
                          const LoadQueue& under_way) const;

  // Fills in the groups of `step`, its layers, waits and offers, and its planned time. Of no
  // offers, there are no groups. Of workers that are waking, those that are awake have all of it if
  // the step is expected to end sooner so than if it waits for the others.
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
  mutable std::mutex learner_mutex_;  // guards what is learnt for who asks; held for moments
  CostLearner learner_;
  HandoffOptions::Planner plan_;  // null: plan_handoff(), by what memory_ says
  PlanMemory memory_;
  std::uint64_t plans_followed_ = 0, plans_given_up_ = 0;
  // Of note_workers(), which alone uses these.
  struct Learnt {
    CostLearner costs;
    PlanMemory plans;
  };
  std::vector<std::uint64_t> all_workers_, live_workers_;  // [mailboxes]: expected; the last time
  std::optional<Learnt> before_faults_;
  TimePoint workers_changed_, faults_ended_;
  const HostTier* host_;
  const Clock* clock_;
  // Of a step: jobs of all steps under way lie in the ring of group jobs at once, and it wraps
  // where it may.
  const std::int32_t max_groups_;
};

}  // namespace tandem
