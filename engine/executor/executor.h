// What lies on a device, and the steps that run there: the compute stream, the model, the memory
// of the page pool, the adapters in it and what of them CPU workers are handed, the metadata of
// steps and the recordings of decode steps.
//
//   StepPlan -> enqueue() -> ... up to kMaxStepsInFlight under way ... -> wait() -> StepResult
//                         -> masks(), sample(), if the plan names masks
//
// Several devices that share a model (loader/shard.h) are given the same plans, each by a thread of
// its own while enqueue() lasts: enqueueing takes as long as on one, and a device whose stream is
// full, as its operations wait for those of another, holds up nobody. They choose the same tokens;
// the first one's are told.
//
// It knows sequences by the ids of a plan and adapters by their slots. Who runs when, which page is
// whose, and what a token means is its caller's business: the PagePool is the caller's, too, and
// DeviceTier takes from it what adapters need.
//
// One thread uses it (the engine's), but for what Handoff tells any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/adapters/host_tier.h"
#include "engine/executor/enqueue_timer.h"
#include "engine/executor/step_pipeline.h"
#include "engine/executor/step_plan.h"
#include "engine/handoff/handoff.h"
#include "engine/handoff/handoff_options.h"
#include "engine/loader/thread_team.h"
#include "engine/memory/kv_cache.h"
#include "engine/memory/page_pool.h"
#include "engine/model/model.h"
#include "engine/service/lora_sharding.h"
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
  LoraSharding lora_sharding = LoraSharding::automatic;  // of devices that share the model
  // Rows of adapters that are loading go to CPU workers, if it has groups of them.
  HandoffOptions handoff;
  ColdStartLog* cold_starts = nullptr;  // is told of loads and of steps; outlives the executor
  bool whole_loads = false;  // until all of the adapter is there; else as the planner says
};

class Executor {
 public:
  // Loads the model into the device, or its shards into several. `pool` numbers the pages: its
  // layout is that of the model (shape_of_shard), and its device memory is allocated here. `host`
  // is where the adapters' weights come from. All but the options, `config` and `weights` outlive
  // the executor.
  static Result<std::unique_ptr<Executor>> create(const ExecutorOptions& options,
                                                  const ModelSpec& config,
                                                  const WeightSource& weights, DType dtype,
                                                  std::span<Device* const> devices, PagePool& pool,
                                                  const HostTier& host, const Clock& clock,
                                                  const LoadProgress& progress);
  ~Executor();  // waits for what is under way
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Enqueues the step. Requires !full(); that every slot in it holds its adapter or is being loaded
  // with it (tier()), and does so until the step has been waited for; and that the plan is within
  // the limits. A plan of doubtful origin is checked before (check_plan).
  void enqueue(const StepPlan& plan);
  // The step enqueued last is computed but for its sampling: it waits for its masks. They are given
  // before another is enqueued and before it is waited for; when the step before it fails, it is
  // waited for without.
  bool awaits_masks() const { return lead().awaits_masks(); }
  // [StepPlan::num_masks, mask_words(vocab)], to be overwritten; pinned. Requires awaits_masks().
  std::span<std::uint32_t> masks() { return lead().masks(); }
  // Enqueues the sampling with what masks() holds.
  void sample();
  std::size_t num_in_flight() const { return lead().num_in_flight(); }
  bool full() const { return lead().full(); }
  bool empty() const { return lead().empty(); }  // nothing is under way
  // Waits for the oldest step. After a failure the steps behind it are void: the caller lets them
  // leave, with the same status, before it enqueues another.
  StepResult wait();
  // After an exception: waits until the device is done, and forgets what is under way, a step that
  // was being enqueued and loads that were being started included. Pages and slots stay as they
  // are; what was computed since the last wait() is in doubt. A failure is one of the device.
  Status abandon() noexcept;
  // Whether wait() would return at once. Requires !empty().
  bool oldest_has_ended();
  // When planning the step behind the one that runs is to begin, if it is to bring such work, so
  // that it is enqueued shortly before the one that runs ends; nothing: at once. Never later than
  // the end that is expected.
  std::optional<TimePoint> plan_at(Planning::Work next) const { return lead().plan_at(next); }
  // How the planning of the step that is enqueued next began: plan_at() learns from it.
  void planning(const Planning& planning) { lead().planning(planning); }
  EnqueueCounts enqueue_counts() const { return lead().enqueue_counts(); }
  // Seconds until a step that is enqueued now would begin.
  double next_starts_in() const { return lead().next_starts_in(); }
  // Nothing is left to do for now: what passes until the next step is no gap.
  void rest() { lead().rest(); }

  DeviceTier& tier() { return *tier_; }
  const Handoff* handoff() const { return handoff_.get(); }  // null: nothing is handed over
  Handoff* handoff() { return handoff_.get(); }
  // How adapters are shared out from the next step on, among devices that share the model: as
  // ExecutorOptions say, until a benchmark compares.
  void use(LoraSharding sharding);
  // What was counted until now was no work of anybody's. Requires empty().
  void forget_counts();
  // Of the first device.
  const Model& model() const { return *ranks_.front().model; }

 private:
  // A device's own, in the order in which they are needed.
  struct Rank {
    Device* device = nullptr;
    std::unique_ptr<Communicator> communicator;  // null: there is no other
    std::unique_ptr<Model> model;
    KvCache cache;
    std::unique_ptr<StepPipeline> pipeline;
  };

  Executor() = default;
  Status make_ranks(const ExecutorOptions& options, const ModelSpec& config,
                    const WeightSource& weights, DType dtype, std::span<Device* const> devices,
                    const PoolShape& pool, const LoadProgress& progress);
  Status make_handoff(const ExecutorOptions& options, const ModelSpec& config, const HostTier& host,
                      const Clock& clock);
  Status make_tier(const ExecutorOptions& options, const ModelSpec& config, PagePool& pool,
                   const Clock& clock);
  Status make_pipelines(const ExecutorOptions& options, const Clock& clock);
  StepPipeline& lead() const { return *ranks_.front().pipeline; }
  // body(rank) for all at once, each on a thread of its own. Rethrows what one of them throws; the
  // others then wait for nobody.
  void on_every_rank(const std::function<void(Rank&)>& body);
  void tell_of_failures();
  void note_failure(Status status);
  void meet_again();

  std::vector<Rank> ranks_;
  std::unique_ptr<Handoff> handoff_;
  std::unique_ptr<DeviceTier> tier_;
  std::unique_ptr<ThreadTeam> team_;  // null: one device
  Status failure_;                    // of any device, until no step is under way
};

}  // namespace tandem
