// Owns everything on a device, and runs steps there: the compute stream, the model, the memory of
// the page pool, the adapters in it, the handoff of their rows to CPU workers, the metadata of
// steps and the graphs of decode steps.
//
//   StepPlan -> enqueue() -> ... up to kMaxStepsInFlight under way ... -> wait() -> StepResult
//                         -> masks(), sample(), if the plan names masks
//
// Devices that share a model (loader/shard.h) get the same plans. While enqueue() lasts, each has a
// thread of its own: enqueueing takes as long as on one device, and a device whose stream is full,
// because its operations wait for those of another, delays no other. All devices choose the same
// tokens; the result has those of the first.
//
// The executor identifies sequences by the ids in a plan and adapters by their slots. Its caller
// schedules, assigns pages and interprets tokens: the PagePool is the caller's, too, and DeviceTier
// takes pages for adapters from it.
//
// Only the engine thread may use it, except for the functions of Handoff that are marked as safe
// for any thread.
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
#include "engine/executor/step_pipeline.h"
#include "engine/executor/step_plan.h"
#include "engine/executor/step_times.h"
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
  bool overlap = true;                   // true: kMaxStepsInFlight steps in flight; false: one
  bool just_in_time = true;  // use StepTimes::plan_at(); false: steps are always planned at once
  std::int32_t max_graph_batch = 0;  // most rows of a decode step with a graph; 0: no graphs
  bool record_at_start = false;      // record all graphs in create()
  bool tune_at_start = false;        // measure the fastest way to compute the products
  LoraSharding lora_sharding = LoraSharding::automatic;  // for devices that share the model
  // Rows of adapters that are loading go to CPU workers if this has groups.
  HandoffOptions handoff;
  ColdStartLog* cold_starts = nullptr;  // records loads and steps; outlives the executor
  bool whole_loads = false;  // use workers until the whole adapter has arrived; false: as planned
};

class Executor {
 public:
  // Loads the model to the device, or its shards to several. The layout of `pool` must be that of
  // the model (shape_of_shard); its device memory is allocated here. `host` holds the adapters'
  // weights. All arguments but the options, `config` and `weights` outlive the executor.
  static Result<std::unique_ptr<Executor>> create(const ExecutorOptions& options,
                                                  const ModelSpec& config,
                                                  const WeightSource& weights, DType dtype,
                                                  std::span<Device* const> devices, PagePool& pool,
                                                  const HostTier& host, const Clock& clock,
                                                  const LoadProgress& progress);
  ~Executor();  // waits for the steps in flight
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Enqueues the step. Requires !full(), and a plan within the limits (check_plan() for one from
  // outside). Every slot in it must hold its adapter, or be loading it (tier()), until the step has
  // been waited for.
  void enqueue(const StepPlan& plan);
  // [StepPlan::num_masks, mask_words(Model::logit_columns)], to be overwritten; pinned. Of the step
  // enqueued last, if it is enqueued but for its sampling, which waits for masks; otherwise empty.
  // They must be given before the next enqueue() and before the step's wait(). If the step before
  // it fails, it is waited for without masks.
  std::span<std::uint32_t> masks() { return lead().masks(); }
  // Enqueues the sampling with the content of masks(), which must not be empty.
  void sample();
  std::size_t num_in_flight() const { return lead().num_in_flight(); }
  bool full() const { return lead().full(); }
  bool empty() const { return num_in_flight() == 0; }
  // Waits for the oldest step. After a failure the steps behind it are invalid: the caller waits
  // for them, with the same status, before it enqueues another.
  StepResult wait();
  // For use after an exception: waits until the device is done, and drops everything in flight,
  // including a step that was being enqueued and loads that were being started. Pages and slots
  // stay as they are; results since the last wait() may be invalid. A failure is a failure of the
  // device.
  Status abandon() noexcept;
  // True if wait() would return at once. Requires !empty().
  bool oldest_has_ended();
  // When steps begin and end, on the first device.
  StepTimes& times() const { return lead().times(); }

  DeviceTier& tier() { return *tier_; }
  Handoff* handoff() const { return handoff_.get(); }  // null: nothing is handed over
  // Sets how adapters are split between devices that share the model, from the next step on. The
  // initial setting is in ExecutorOptions; a benchmark compares others.
  void use(LoraSharding sharding);
  // Resets the counts, as what they counted was no work of a user. Requires empty().
  void forget_counts();
  // Of the first device.
  const Model& model() const { return *ranks_.front().model; }

 private:
  // The objects of one device, in the order in which they depend on each other.
  struct Rank {
    Device* device = nullptr;
    std::unique_ptr<Communicator> communicator;  // null: there is only one rank
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
  // Runs body(rank) for all ranks at once, each on its own thread. Rethrows an exception of one of
  // them; the others then no longer wait for that rank.
  void on_every_rank(const std::function<void(Rank&)>& body);
  void tell_of_failures();
  void note_failure(Status status);
  void meet_again();

  std::vector<Rank> ranks_;
  std::unique_ptr<Handoff> handoff_;
  std::unique_ptr<DeviceTier> tier_;
  std::unique_ptr<ThreadTeam> team_;  // null: one device
  Status failure_;                    // of any device, until no step is in flight
};

}  // namespace tandem
