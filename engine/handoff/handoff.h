// The engine's side of the handoff: which rows of a step go to CPU workers (HandoffPlanner), what
// the workers are told of them, and what happens when they do not answer (Mailboxes). A step goes
// through it in this order:
//
//   admission() in which steps cold adapters begin; and wake_workers()
//   mend()      mailboxes that have become quiet are open again
//   plan()      which cold adapters become groups, in which layers, and what else is waited for
//   publish()   the jobs are described, sleeping workers are woken; the step may be enqueued
//   copy_back() behind the step: its tickets, and which groups timed out
//   end()       the step has ended: what was void
//
// Where several devices share the model, all offer and accept the same jobs: the first one's step
// is planned, the others follow() it, each with a HandoffStep of its own. Tickets follow from what
// all ranks know (OfferArgs), so that they are the same everywhere.
//
// The engine thread alone uses it, but for what is marked.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/recent_median.h"
#include "base/status.h"
#include "engine/adapters/device/load_queue.h"
#include "engine/adapters/host_tier.h"
#include "engine/handoff/handoff_options.h"
#include "engine/handoff/handoff_planner.h"
#include "engine/handoff/handoff_step.h"
#include "engine/handoff/mailboxes.h"
#include "engine/model/step/step_batch.h"
#include "engine/model/step/steps_in_flight.h"
#include "gpu/device.h"
#include "scheduler/coldstart/admission.h"

namespace tandem {

class Handoff {
 public:
  struct Rank {
    Device* device = nullptr;
    Communicator* communicator = nullptr;  // null: there is no other
  };
  // As Mailboxes::create and HandoffPlanner, for the whole model's `config`.
  static Result<std::unique_ptr<Handoff>> create(std::span<const Rank> ranks,
                                                 const ModelSpec& config, DType dtype,
                                                 std::int32_t max_rank, bool whole_loads,
                                                 const HandoffOptions& options,
                                                 const HostTier& host, const Clock& clock);

  // In which steps adapters that wait should begin, and in which order the loads that are reserved,
  // `loads`, should travel: behind those of `waiting`, which are on their way. The turns are those
  // of `waiting`, then `loads`; the order names `loads` alone. `rows` beside them is what else the
  // next step will have.
  AdmissionPlan admission(std::span<const AdapterRows> waiting, std::span<const AdapterRows> loads,
                          std::int32_t rows, double starts_in, const LoadQueue& under_way) const;

  // Workers that sleep take a tenth of a millisecond to wake, or many: for who is about to order
  // loads and to enqueue a step that may hand something over.
  void wake_workers() { mailboxes_->wake(undisturbed()); }

  void mend(Stream& stream) { mailboxes_->mend(stream); }
  // Fills in all of `step` but `device`. What of `cold`, adapters that have not all arrived, is in
  // none of its groups must be waited for layer by layer.
  void plan(std::span<const AdapterRows> cold, std::int32_t step_rows, double starts_in,
            const LoadQueue& under_way, HandoffStep& step);
  std::vector<ColdSlot> cold_slots(const HandoffStep& step) const;
  // At the places of its offers (offer_at), and of those that it does not make: sequence 0.
  std::vector<HandoffTurn> turns(const HandoffStep& step) const;
  // `input` is the step's, uploaded; enqueue it then.
  void publish(const StepInput& input, const LoadQueue& under_way, HandoffStep& step);
  void copy_back(Stream& stream, const HandoffStep& step);

  // For the ranks after the first, on their threads: instead of plan(), once the first one's step
  // has been planned; of publish(), whose `loads` are the rank's own; and of copy_back().
  void follow(std::size_t rank, const HandoffStep& first, HandoffStep& step) const;
  void describe_to(std::size_t rank, const StepInput& input, const LoadQueue& loads,
                   HandoffStep& step) const;
  static void copy_timed_out_back(Stream& stream, const HandoffStep& step);

  // `failed`: nothing is known of it but that it is over. `seconds` that it took. What other ranks
  // waited for in vain has been added to step.timed_out.
  HandoffOutcome end(HandoffStep& step, bool failed, double seconds);
  // Instead of end(), for a step that an exception has left anywhere between plan() and end(); the
  // device is done with it.
  void abandon(HandoffStep& step) noexcept;

  // A step that handed nothing over, waited for nobody and was not recorded took so many seconds.
  void observe_step(std::int32_t rows, double seconds) { planner_.observe_step(rows, seconds); }
  // As CostLearner.
  void observe_loads(double model_s, double seen_s) { planner_.observe_loads(model_s, seen_s); }
  void be_optimistic() { planner_.be_optimistic(); }

  double step_time(std::int32_t rows) const { return planner_.step_time(rows); }
  const CostModel& costs() const { return planner_.costs(); }
  // Any thread.
  EngineLessons lessons() const { return planner_.lessons(); }
  HandoffLearning learning() const {
    HandoffLearning learning = planner_.learning();
    learning.worker_wake_s = mailboxes_->worker_wake_s();
    return learning;
  }
  HandoffOptions::Planner plan_by(HandoffOptions::Planner planner) {
    return planner_.plan_by(std::move(planner));
  }
  const HandoffCounts& counts() const { return counts_; }
  void forget_counts() {
    counts_ = {};
    plan_errors_ = {};
  }
  // Any thread; as in Mailboxes.
  std::vector<WorkerStatus> workers() const { return mailboxes_->status(); }
  std::int32_t live_workers() const { return mailboxes_->live_workers(); }

 private:
  Handoff(const ModelSpec& config, std::size_t num_devices, bool whole_loads,
          const HandoffOptions& options, const HostTier& host, const Clock& clock);
  Status make_device_memory(const Rank& rank);
  void place_answers(std::size_t rank, HandoffStep& step) const;
  const std::vector<std::uint64_t>& undisturbed() const;
  void describe(std::size_t layer, Site site, std::uint64_t sequence, const HandoffStep& step);
  void close(HandoffStep& step, std::uint64_t broken) noexcept;
  void learn(const HandoffStep& step, double seconds);
  void tell_of(const HandoffStep& step, double seconds) noexcept;
  std::int32_t count_layers(const HandoffStep& step, std::size_t group);
  static constexpr std::size_t kRememberedErrors = 64;

  const ModelSpec config_;
  const std::uint32_t deadline_us_;
  const HostTier* const host_;
  std::vector<std::uint64_t> kept_;  // [mailboxes]: workers that no reading thread disturbs
  const std::vector<std::uint64_t> all_;
  HandoffPlanner planner_;
  std::unique_ptr<Mailboxes> mailboxes_;
  struct RankMemory {
    Communicator* communicator = nullptr;
    Buffer told;   // device memory: times and tickets of all places (StepHandoff)
    Buffer shown;  // of several ranks: OfferArgs::shown
    std::array<Buffer, kMaxStepsInFlight> answers;  // as `told`, in host memory, then `timed_out`
  };
  std::vector<RankMemory> ranks_;
  std::size_t turn_ = 0;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_published_ = 1;  // behind it only within a step that is being enqueued
  ColdStartLog* const cold_starts_;
  HandoffCounts counts_;
  RecentMedian<kRememberedErrors> plan_errors_;
};

}  // namespace tandem
