// The engine's side of the handoff: chooses the rows of a step that go to CPU workers
// (HandoffPlanner), publishes their jobs, and deals with workers that do not answer (Mailboxes).
// The calls for a step, in order:
//
//   admission() in which steps cold adapters begin; then wake_workers()
//   mend()      reopens mailboxes that have become quiet
//   plan()      which cold adapters become groups, in which layers, and which loads it waits for
//   publish()   describes the jobs and wakes sleeping workers; the step may be enqueued then
//   copy_back() enqueued behind the step: its tickets, and which groups timed out
//   end()       after the step: the groups whose rows have to be computed again
//
// Where several devices share the model, all offer and accept the same jobs. The first device's
// step is planned, and the others follow() it, each with a HandoffStep of its own. All ranks issue
// the same tickets, as they derive them from data that all of them have (OfferArgs).
//
// Only the engine thread may use it, except where a comment says otherwise.
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
                          std::int32_t rows, double starts_in, const LoadQueue& under_way) const;

  // Wakes sleeping workers, which takes a tenth of a millisecond to many milliseconds. Call it
  // before ordering loads and before enqueueing a step that may hand rows over.
  void wake_workers() { mailboxes_->wake(undisturbed()); }

  void mend(Stream& stream) { mailboxes_->mend(stream); }
  // Fills in all of `step` but `device`. `cold`: the adapters that have not fully arrived; the
  // caller waits layer by layer for those that are in no group.
  void plan(std::span<const AdapterRows> cold, std::int32_t step_rows, double starts_in,
            const LoadQueue& under_way, HandoffStep& step);
  std::vector<ColdSlot> cold_slots(const HandoffStep& step) const;
  // One for each place (offer_at); the sequence is 0 at places where the step offers nothing.
  std::vector<HandoffTurn> turns(const HandoffStep& step) const;
  // `input` is the step's, uploaded. Enqueue the step after this.
  void publish(const StepInput& input, const LoadQueue& under_way, HandoffStep& step);
  void copy_back(Stream& stream, const HandoffStep& step);

  // For the ranks after the first, on their threads, once the first rank's step has been planned:
  // follow() instead of plan(), describe_to() instead of publish(), with the rank's own `loads`,
  // and copy_timed_out_back() instead of copy_back().
  void follow(std::size_t rank, const HandoffStep& first, HandoffStep& step) const;
  void describe_to(std::size_t rank, const StepInput& input, const LoadQueue& loads,
                   HandoffStep& step) const;
  static void copy_timed_out_back(Stream& stream, const HandoffStep& step);

  // `failed`: the step ended without a valid result. `seconds`: its duration. step.timed_out must
  // also have the groups that timed out on other ranks.
  HandoffOutcome end(HandoffStep& step, bool failed, double seconds);
  // Replaces end() for a step that an exception left anywhere between plan() and end(). The device
  // must have finished it.
  void abandon(HandoffStep& step) noexcept;

  // For a step that handed nothing over, waited for no load and ran without a graph.
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
  std::vector<std::uint64_t> kept_;  // [mailboxes]: workers whose cores no reading thread shares
  const std::vector<std::uint64_t> all_;
  HandoffPlanner planner_;
  std::unique_ptr<Mailboxes> mailboxes_;
  struct RankMemory {
    Communicator* communicator = nullptr;
    Buffer told;   // device memory: times and tickets of all places (StepHandoff)
    Buffer shown;  // with several ranks: OfferArgs::shown
    std::array<Buffer, kMaxStepsInFlight> answers;  // as `told`, then `timed_out`, in host memory
  };
  std::vector<RankMemory> ranks_;
  std::size_t turn_ = 0;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_published_ = 1;  // lower only while a step is being enqueued
  ColdStartLog* const cold_starts_;
  HandoffCounts counts_;
  RecentMedian<kRememberedErrors> plan_errors_;
};

}  // namespace tandem
