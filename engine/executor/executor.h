// What lies on one device, and the steps that run there: the compute stream, the model, the memory
// of the page pool, the adapters in it and what of them CPU workers are handed, the metadata of
// steps and the recordings of decode steps.
//
//   StepPlan -> enqueue() -> ... up to kMaxStepsInFlight under way ... -> wait() -> StepResult
//                         -> masks(), sample(), if the plan names masks
//
// It knows sequences by the ids of a plan and adapters by their slots. Who runs when, which page is
// whose, and what a token means is its caller's business: the PagePool is the caller's, too, and
// DeviceTier takes from it what adapters need.
//
// One thread uses it (the engine's), but for what Handoff tells any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "engine/adapters/device_tier.h"
#include "engine/adapters/host_tier.h"
#include "engine/executor/enqueue_timer.h"
#include "engine/executor/step_pipeline.h"
#include "engine/executor/step_plan.h"
#include "engine/handoff/handoff.h"
#include "engine/handoff/handoff_options.h"
#include "engine/memory/kv_cache.h"
#include "engine/memory/page_pool.h"
#include "engine/model/llama.h"
#include "gpu/device.h"

namespace tandem {

struct ExecutorOptions {
  ModelLimits model;
  StepLimits step;
  std::int32_t max_device_adapters = 0;  // slots
  bool overlap = true;                   // kMaxStepsInFlight steps under way; else one
  bool just_in_time = true;              // plan_at() tells; else at once, always
  std::int32_t max_graph_batch = 0;      // rows up to which decode steps are recorded; 0: never
  bool record_at_start = false;          // all of them, in create()
  bool tune_at_start = false;            // measure how the device best computes the products
  // Rows of adapters that are loading go to CPU workers, if it has groups of them.
  HandoffOptions handoff;
  ColdStartLog* cold_starts = nullptr;  // is told of loads and of steps; outlives the executor
  bool whole_loads = false;  // until all of the adapter is there; else as the planner says
};

class Executor {
 public:
  // Loads the model into the device. `pool` numbers the pages: its layout is that of the model, and
  // its device memory is allocated here. `host` is where the adapters' weights come from. All but
  // the options, `config` and `weights` outlive the executor.
  static Result<std::unique_ptr<Executor>> create(const ExecutorOptions& options,
                                                  const ModelConfig& config,
                                                  const WeightSource& weights, DType dtype,
                                                  Device& device, PagePool& pool,
                                                  const HostTier& host, const Clock& clock,
                                                  const LoadProgress& progress);
  ~Executor();  // waits for what is under way
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Enqueues the step. Requires !full(); that every slot in it holds its adapter or is being loaded
  // with it (tier()), and does so until the step has been waited for; and that the plan is within
  // the limits. A plan of doubtful origin is checked before (check_plan).
  void enqueue(const StepPlan& plan) { pipeline_->enqueue(plan); }
  // The step enqueued last is computed but for its sampling: it waits for its masks. They are given
  // before another is enqueued and before it is waited for; when the step before it fails, it is
  // waited for without.
  bool awaits_masks() const { return pipeline_->awaits_masks(); }
  // [StepPlan::num_masks, mask_words(vocab)], to be overwritten; pinned. Requires awaits_masks().
  std::span<std::uint32_t> masks() { return pipeline_->masks(); }
  // Enqueues the sampling with what masks() holds.
  void sample() { pipeline_->sample(); }
  std::size_t num_in_flight() const { return pipeline_->num_in_flight(); }
  bool full() const { return pipeline_->full(); }
  bool empty() const { return pipeline_->empty(); }  // nothing is under way
  // Waits for the oldest step. After a failure the steps behind it are void: the caller lets them
  // leave, with the same status, before it enqueues another.
  StepResult wait() { return pipeline_->wait(); }
  // After an exception: waits until the device is done, and forgets what is under way, a step that
  // was being enqueued and loads that were being started included. Pages and slots stay as they
  // are; what was computed since the last wait() is in doubt. A failure is one of the device.
  Status abandon() noexcept;
  // Whether wait() would return at once. Requires !empty().
  bool oldest_has_ended() { return pipeline_->oldest_has_ended(); }
  // When planning the step behind the one that runs is to begin, if it is to bring such work, so
  // that it is enqueued shortly before the one that runs ends; nothing: at once. Never later than
  // the end that is expected.
  std::optional<TimePoint> plan_at(Planning::Work next) const { return pipeline_->plan_at(next); }
  // How the planning of the step that is enqueued next began: plan_at() learns from it.
  void planning(const Planning& planning) { pipeline_->planning(planning); }
  EnqueueCounts enqueue_counts() const { return pipeline_->enqueue_counts(); }
  // Seconds until a step that is enqueued now would begin.
  double next_starts_in() const { return pipeline_->next_starts_in(); }
  // Nothing is left to do for now: what passes until the next step is no gap.
  void rest() { pipeline_->rest(); }

  DeviceTier& tier() { return *tier_; }
  const Handoff* handoff() const { return handoff_.get(); }  // null: nothing is handed over
  Handoff* handoff() { return handoff_.get(); }
  // What was counted until now was no work of anybody's. Requires empty().
  void forget_counts();
  const LlamaModel& model() const { return *model_; }

 private:
  Executor() = default;
  Status make_handoff(const ExecutorOptions& options, Device& device, const HostTier& host,
                      const Clock& clock);
  Status make_tier(const ExecutorOptions& options, Device& device, PagePool& pool,
                   const Clock& clock);

  std::unique_ptr<LlamaModel> model_;
  KvCache cache_;
  std::unique_ptr<Handoff> handoff_;
  std::unique_ptr<DeviceTier> tier_;
  std::unique_ptr<StepPipeline> pipeline_;  // last: ends before all that its steps use
};

}  // namespace tandem
