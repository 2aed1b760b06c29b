// What a scheduler of many engines is told of this one: its load, its room, and what its steps
// take, by a model that follows them (StepCostTracker).
//
// The engine thread alone uses it. Nothing here walks over what waits in every step: what is told
// may be some milliseconds old.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/batching/batch/continuous_batcher.h"
#include "engine/batching/engine_options.h"
#include "engine/batching/line/sequence.h"
#include "engine/executor/step_plan.h"
#include "engine/memory/page_pool.h"
#include "engine/model/spec/model_spec.h"
#include "engine/model/step/steps_in_flight.h"
#include "scheduler/costs/step_cost_tracker.h"
#include "scheduler/policies/engine_view.h"

namespace tandem {

// A sequence that waits, in the sums of a view.
void add_waiting(const Sequence& sequence, EngineView& view);

// What adapters and KV that give way would take to be brought back, by the same figures.
ReclaimCosts reclaim_costs(const EngineView& view, std::int32_t page_tokens);

// Before anything has run.
EngineView first_view(const EngineOptions& options, const ModelSpec& config, DType dtype);

class EngineReporter {
 public:
  // `pool` outlives it. `chunk_bytes`: of a chunk of the pool.
  EngineReporter(const EngineView& first, const PagePool& pool, std::int64_t chunk_bytes);

  // These are to be enqueued as one step, behind those under way; before they are moved on.
  void begins(const std::vector<ScheduledSequence>& scheduled, TimePoint now);
  // The oldest step has ended.
  void ends(const StepResult& step, TimePoint now);
  // No step is under way any more, and nothing is known of those that were.
  void forget() { num_steps_ = 0; }

  // Something is to be told: what was told last is old, or the engine comes to rest.
  bool is_due(TimePoint now, bool rests) const;
  const EngineView& look(const ContinuousBatcher& scheduler, const DeviceTier& adapters,
                         TimePoint now);
  // Of the oldest step under way, expected; nothing: none is.
  std::optional<TimePoint> step_ends() const;

 private:
  struct Step {
    DecodeLoad decode;
    PrefillLoad prefill;
    bool teaches = true;  // nothing in it had to wait for an adapter
  };

  const PagePool* pool_;
  const std::int64_t chunk_bytes_;
  StepCostTracker tracker_;
  EngineView view_;
  std::array<Step, kMaxStepsInFlight> steps_;  // oldest first
  std::size_t num_steps_ = 0;
  TimePoint begun_{};  // the oldest
  std::optional<TimePoint> looked_;
};

}  // namespace tandem
