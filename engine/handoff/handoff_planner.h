// Decides which rows of a step go to CPU workers: asks the cost model's planner, and lays its
// answer out for the step.
//
// Only the engine thread may use it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/adapters/device/load_queue.h"
#include "engine/adapters/host_tier.h"
#include "engine/handoff/handoff_learner.h"
#include "engine/handoff/handoff_options.h"
#include "engine/handoff/handoff_step.h"
#include "engine/handoff/mailbox_workers.h"
#include "engine/model/spec/model_spec.h"
#include "scheduler/planning/coldstart/admission.h"
#include "scheduler/planning/coldstart/planner.h"
#include "scheduler/planning/coldstart/step_choice.h"

namespace tandem {

class HandoffPlanner {
 public:
  // `whole_loads`: workers are offered all layers until the whole adapter has arrived (as in the
  // CaraServe paper); otherwise the options' planner decides. `host`, `learner` and `clock` outlive
  // the planner.
  HandoffPlanner(const ModelSpec& config, std::int32_t num_devices, bool whole_loads,
                 const HandoffOptions& options, const HostTier& host, const HandoffLearner& learner,
                 const Clock& clock);

  std::int32_t most_offers() const;  // of one step
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
  // expected to end sooner that way than if it waits for the others. `admitted`: the way that
  // admission() chose for a step with these adapters, which is followed in the same situation.
  void plan(std::span<const AdapterRows> cold, std::int32_t step_rows, double starts_in,
            std::span<const MailboxWorkers> workers, const LoadQueue& under_way,
            const std::optional<WayChoice>& admitted, HandoffStep& step) const;

 private:
  struct Candidate;
  std::vector<Candidate> choose(std::span<const AdapterRows> cold,
                                std::span<const MailboxWorkers> workers,
                                const LoadQueue& under_way) const;
  static void leave_out_sleepers(std::span<Candidate> candidates);
  ColdAdapter times_of(const AdapterRows& cold, const ArrivingAdapter& arriving,
                       TimePoint now) const;
  StepChoice plan_step(const PlanRequest& request, const std::optional<WayChoice>& admitted) const;
  PlanRequest request_for(std::int32_t rows, double starts_in) const;
  PlanRequest request_for_step(std::span<const Candidate> candidates, std::int32_t step_rows,
                               double starts_in) const;
  StepChoice choose_layers(std::span<const Candidate> candidates, const PlanRequest& request,
                           const std::optional<WayChoice>& admitted) const;
  void add_group(const Candidate& candidate, HandoffStep& step) const;
  void lay_out(std::span<const Candidate> candidates, const HandoffPlan& plan,
               HandoffStep& step) const;

  const ModelSpec config_;
  const std::int32_t num_devices_;  // that share the model
  const bool whole_loads_;
  const std::int32_t max_rows_;
  const std::int32_t num_mailboxes_;
  HandoffOptions::Planner plan_;  // null: choose_step()
  const HandoffLearner* learner_;
  const HostTier* host_;
  const Clock* clock_;
  // The limit of one step. The ring of group jobs holds the jobs of all steps in flight at once,
  // and has to have room for a wrap.
  const std::int32_t max_groups_;
};

}  // namespace tandem
