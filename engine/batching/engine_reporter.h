// Reports this engine's state to a scheduler of many engines: its load, its room, and the times of
// its steps, from a model that follows them (StepCostTracker).
//
// Only the engine thread may use it. A report may be some milliseconds old, as walking over the
// waiting sequences in every step would take too long.
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
#include "scheduler/cluster/view/engine_view.h"
#include "scheduler/planning/costs/step_cost_tracker.h"

namespace tandem {

// Adds a waiting sequence to the sums of a view.
void add_waiting(const Sequence& sequence, EngineView& view);

// The costs of restoring evicted adapters and KV pages, according to the view.
ReclaimCosts reclaim_costs(const EngineView& view, const PoolShape& pool);

// The view before anything has run.
EngineView first_view(const EngineOptions& options, const PoolShape& pool, const ModelSpec& config,
                      DType dtype);

class EngineReporter {
 public:
  // `pool` outlives the reporter. `chunk_bytes`: bytes of a chunk of the pool.
  EngineReporter(const EngineView& first, const PagePool& pool, std::int64_t chunk_bytes);

  // Called before these sequences are enqueued as one step, behind those in flight, and before they
  // are advanced.
  void begins(const std::vector<ScheduledSequence>& scheduled, TimePoint now);
  // Called when the oldest step has ended.
  void ends(const StepResult& step, TimePoint now);
  // Drops all steps in flight without using their times.
  void forget() { num_steps_ = 0; }

  // True if a new report is due: the last one is old, or the engine becomes idle.
  bool is_due(TimePoint now, bool rests) const;
  const EngineView& look(const ContinuousBatcher& scheduler, const DeviceTier& adapters,
                         TimePoint now);
  // The expected end of the oldest step in flight; no value: there is none.
  std::optional<TimePoint> step_ends() const;

 private:
  struct Step {
    DecodeLoad decode;
    PrefillLoad prefill;
    bool teaches = true;  // no sequence in it waited for an adapter
  };

  const PagePool* pool_;
  const std::int64_t chunk_bytes_;
  StepCostTracker tracker_;
  EngineView view_;
  std::array<Step, kMaxStepsInFlight> steps_;  // oldest first
  std::size_t num_steps_ = 0;
  TimePoint begun_{};  // when the oldest step began
  std::optional<TimePoint> looked_;
};

}  // namespace tandem
