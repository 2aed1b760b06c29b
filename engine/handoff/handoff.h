// The engine's side of the handoff: the planner of steps (HandoffPlanner), what it has learnt
// (HandoffLearner), and the mailboxes with their workers (Mailboxes). A step with cold rows is an
// object of its own (planned_handoff.h). The calls for a step, in order:
//
//   admission()  in which steps cold adapters begin; then wake_workers()
//   mend()       reopens mailboxes that have become quiet
//   plan_step()  which cold adapters become groups, in which layers, and which loads it waits for,
//                in the way that admission() chose, or in one of its own
//     offer()      describes the jobs and wakes sleeping workers; the step may be enqueued then
//     copy_back()  enqueued behind the step: its tickets, and which groups timed out
//     finish()     after the step: the groups whose rows have to be computed again
//
// Where several devices share the model, all offer and accept the same jobs. The first device's
// step is planned, and the others follow it, each with an object of its own. All ranks issue the
// same tickets, as they derive them from data that all of them have (OfferArgs).
//
// Only the engine thread may use it, except where a comment says otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/recent_median.h"
#include "base/status.h"
#include "engine/adapters/device/load_queue.h"
#include "engine/adapters/host_tier.h"
#include "engine/handoff/handoff_learner.h"
#include "engine/handoff/handoff_options.h"
#include "engine/handoff/handoff_planner.h"
#include "engine/handoff/handoff_step.h"
#include "engine/handoff/mailboxes.h"
#include "engine/handoff/planned_handoff.h"
#include "engine/model/step/steps_in_flight.h"
#include "gpu/device.h"
#include "scheduler/planning/coldstart/admission.h"

namespace tandem {

class Handoff {
 public:
  struct Rank {
    Device* device = nullptr;
    Communicator* communicator = nullptr;  // null: there is only one rank
  };
  // As Mailboxes::create and HandoffPlanner. `config` is that of the whole model.
  static Result<std::unique_ptr<Handoff>> create(std::span<const Rank> ranks,
                                                 const ModelSpec& config, DType dtype,
                                                 std::int32_t max_rank, bool whole_loads,
                                                 const HandoffOptions& options,
                                                 const HostTier& host, const Clock& clock);

  // Decides in which steps waiting adapters begin, and in which order the reserved loads, `loads`,
  // travel: behind those of `waiting`, which are under way. `turns` covers `waiting`, then
  // `loads`; `order` covers `loads` alone. `rows`: the other rows of the next step.
  AdmissionPlan admission(std::span<const AdapterRows> waiting, std::span<const AdapterRows> loads,
                          std::int32_t rows, double starts_in, const LoadQueue& under_way);

  // Wakes sleeping workers, which takes a tenth of a millisecond to many milliseconds. Call it
  // before ordering loads and before enqueueing a step that may hand rows over.
  void wake_workers() { mailboxes_->wake(undisturbed()); }

  void mend(Stream& stream) { mailboxes_->mend(stream); }
  // `cold`: the adapters that have not fully arrived; the caller waits layer by layer for those
  // that are in no group. A step with the adapters and the situation that admission() planned for
  // goes the way that was chosen then; the arrivals by now decide about each layer alone.
  PlannedHandoff plan_step(std::span<const AdapterRows> cold, std::int32_t step_rows,
                           double starts_in, const LoadQueue& under_way);
  // For the ranks after the first, on their threads, once the first rank's step has been planned.
  PlannedHandoff follow_step(std::size_t rank, const HandoffStep& first);

  HandoffLearner& learner() { return learner_; }
  const HandoffLearner& learner() const { return learner_; }
  // Any thread.
  HandoffLearning learning() const {
    HandoffLearning learning = learner_.learning();
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
  friend class PlannedHandoff;
  friend class OfferedHandoff;
  friend struct AbandonStep;

  Handoff(const ModelSpec& config, std::size_t num_devices, bool whole_loads,
          const HandoffOptions& options, const HostTier& host, const Clock& clock);
  Status make_device_memory(const Rank& rank);
  std::optional<WayChoice> take_admitted(std::span<const AdapterRows> cold);
  void place_results(std::size_t rank, HandoffStep& step) const;
  const std::vector<std::uint64_t>& undisturbed() const;
  void close(HandoffStep& step, std::uint64_t broken) noexcept;
  void abandon(HandoffStep& step) noexcept;
  static constexpr std::size_t kRememberedErrors = 64;

  const ModelSpec config_;
  const std::uint32_t deadline_us_;
  const HostTier* const host_;
  std::vector<std::uint64_t> kept_;  // [mailboxes]: workers whose cores no reading thread shares
  const std::vector<std::uint64_t> all_;
  HandoffLearner learner_;
  HandoffPlanner planner_;
  // The steps that the last admission planned and that have not begun, in their order.
  struct Admitted {
    std::vector<std::weak_ptr<ServedAdapter>> adapters;
    WayChoice chosen;
  };
  std::vector<Admitted> admitted_;
  std::unique_ptr<Mailboxes> mailboxes_;
  struct RankMemory {
    Communicator* communicator = nullptr;
    Buffer results;  // device memory: times and tickets of all places (StepHandoff)
    Buffer shown;    // with several ranks: OfferArgs::shown
    // As `results`, then `timed_out`, in host memory.
    std::array<Buffer, kMaxStepsInFlight> host_results;
  };
  std::vector<RankMemory> ranks_;
  std::size_t next_results_ = 0;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_published_ = 1;  // lower only while a step is being enqueued
  ColdStartLog* const cold_starts_;
  HandoffCounts counts_;
  RecentMedian<kRememberedErrors> plan_errors_;
};

}  // namespace tandem
