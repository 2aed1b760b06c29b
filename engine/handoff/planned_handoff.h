// The handover of one step, from its plan to its end. The types have the calls in their order:
//
//   Handoff::plan_step() -> PlannedHandoff, .offer() -> OfferedHandoff, .copy_back(), .finish()
//
// A step may end at any point between them, by an exception: once the device has finished the step,
// the object is destroyed, and workers get empty jobs in place of those that were never published.
//
// Only the engine thread may use them, except those of ranks after the first: these belong to the
// threads of their ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/adapters/device/load_queue.h"
#include "engine/handoff/handoff_step.h"
#include "engine/model/step/step_batch.h"
#include "gpu/device.h"

namespace tandem {

class Handoff;

// `handoff` null: there is nothing to abandon.
struct AbandonStep {
  Handoff* handoff = nullptr;
  void operator()(HandoffStep* step) const noexcept;
};
using HandoffStepPtr = std::unique_ptr<HandoffStep, AbandonStep>;

// Its jobs, if there are groups, are published.
class OfferedHandoff {
 public:
  const HandoffStep& step() const { return *step_; }
  // For Model::compute; null: nothing is handed over.
  const StepHandoff* device() const { return step_->groups.empty() ? nullptr : &step_->device; }
  // Enqueued behind the step: its times and tickets, and which groups timed out.
  void copy_back(Stream& stream) const;
  // For the first rank, when the step has ended. `failed`: without a valid result.
  // `timed_out_elsewhere`: mask of the groups that timed out on other ranks. `seconds`: its
  // duration.
  HandoffOutcome finish(bool failed, std::uint64_t timed_out_elsewhere, double seconds) &&;

 private:
  friend class PlannedHandoff;
  OfferedHandoff(Handoff& handoff, std::size_t rank, HandoffStepPtr step)
      : handoff_(&handoff), rank_(rank), step_(std::move(step)) {}
  std::int32_t count_layers(std::size_t group);
  void learn(double seconds);
  void log_cold_starts(double seconds) noexcept;

  Handoff* handoff_;
  std::size_t rank_;
  HandoffStepPtr step_;
};

class PlannedHandoff {
 public:
  const HandoffStep& step() const { return *step_; }
  std::vector<ColdSlot> cold_slots() const;
  // One for each place (offer_at); the sequence is 0 at places where the step offers nothing.
  std::vector<OfferDescriptor> descriptors() const;
  // Describes the jobs for the device and, on the first rank, publishes them and wakes sleeping
  // workers. `input` is the step's, uploaded; `slots` are the rank's own. Enqueue the step after
  // this.
  OfferedHandoff offer(const StepInput& input, const AdapterSlots& slots) &&;

 private:
  friend class Handoff;
  PlannedHandoff(Handoff& handoff, std::size_t rank, HandoffStepPtr step)
      : handoff_(&handoff), rank_(rank), step_(std::move(step)) {}
  void describe(const StepInput& input, const AdapterSlots& slots);
  void publish();
  void publish_job(std::size_t layer, Site site, std::uint64_t sequence);

  Handoff* handoff_;
  std::size_t rank_;
  HandoffStepPtr step_;
};

}  // namespace tandem
