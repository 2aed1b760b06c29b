// Fills steps, enqueues them and waits for them, in that order. Up to kMaxStepsInFlight steps are
// in flight, so that the device finds the next one enqueued when it has finished one.
//
//   host    fill 1 | enqueue 1 | fill 2 | enqueue 2 | wait 1 | hand out 1 | fill 3 | enqueue 3 |
//   ... device                     | step 1 ..................... | step 2 ......................
//
// Step 2 is filled before the tokens of step 1 are known. Their places hold -1 - (index of the
// sample), and the device replaces these with the tokens that step 1 sampled. If a token then ends
// its sequence, the rows of step 2 are wasted, but nothing else is harmed: the order of
// the stream keeps the memory that they use valid.
//
// A step whose samples have masks is enqueued in two parts: everything but the sampling at once,
// and the sampling when the masks are given. The masks depend on the tokens of the step before, so
// the device computes while the host derives them.
//
//   host    enqueue 2 | wait 1 | hand out 1 | masks of 2 | sample 2 | fill 3 | enqueue 3 | wait 2 |
//   device  1 | step 2, but for its samples ................................ | samples | step 3 ...
//
// The drawings show steps that are enqueued at once. It is better to enqueue a step just in time
// (EnqueueTimer), shortly before the step in flight ends, so that requests that have arrived by
// then join it.
//
// Each decode step is launched as one graph.
//
// Rows of adapters that are still loading go to CPU workers, layer by layer as planned (Handoff).
// Without workers each layer waits for its weights. Only one thread at a time may use a pipeline.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/adapters/device/load_waits.h"
#include "engine/executor/step_plan.h"
#include "engine/executor/step_times.h"
#include "engine/handoff/handoff.h"
#include "engine/memory/kv_cache.h"
#include "engine/model/graphs/decode_graphs.h"
#include "engine/model/model.h"
#include "engine/model/step/lora_halves.h"
#include "engine/model/step/step_batch.h"
#include "engine/model/step/steps_in_flight.h"
#include "gpu/device.h"

namespace tandem {

// The outcome of the oldest step on the other ranks, which have been waited for already.
struct OtherRanks {
  bool failed = false;
  std::uint64_t timed_out = 0;  // mask of groups
};

class StepPipeline {
 public:
  struct Options {
    bool overlap = true;               // true: kMaxStepsInFlight steps in flight; false: one
    bool just_in_time = true;          // enqueue the second step as late as possible, not at once
    std::int32_t max_graph_batch = 0;  // rows of the largest decode step with a graph; 0: no graphs
    StepLimits limits;
    bool has_other_ranks = false;  // its operations wait for theirs: Stream::prepare
  };

  // All arguments, and the tier of `adapters`, outlive the pipeline. `handoff` null: nothing is
  // handed over.
  static Result<std::unique_ptr<StepPipeline>> create(const Options& options, Device& device,
                                                      Model& model, const KvCache& cache,
                                                      DeviceLane adapters, Handoff* handoff,
                                                      const Clock& clock);
  ~StepPipeline();  // waits for the steps in flight

  // Calls Model::tune, before any graph is recorded.
  Status tune();

  // Sets the halves from the next step on; they must be the same on all ranks.
  void use(const LoraHalves& halves) { halves_ = halves; }

  // Records graphs of decode steps of all sizes, with adapters of ranks up to `max_rank` and
  // without.
  Status record_graphs(std::int32_t max_rank);

  // A step is enqueued in two calls. plan() decides what is handed over; the result is valid until
  // the step has been waited for, and null if nothing was decided. With several ranks the first one
  // decides, and the others pass its result as `first`.
  const HandoffStep* plan(const StepPlan& plan, const HandoffStep* first = nullptr);
  // Returns false if the step was not fully enqueued; wait() then returns the reason.
  bool launch(const StepPlan& plan);
  // True if an operation of any step has failed; never blocks.
  bool failed() const { return stream_->failed(); }

  // The calls without a comment are as in Executor.
  std::span<std::uint32_t> masks();
  void sample();
  std::size_t num_in_flight() const { return in_flight_; }
  bool full() const { return in_flight_ == (options_.overlap ? kMaxStepsInFlight : 1U); }
  StepResult wait(const OtherRanks& others = {});
  // For ranks after the first: waits, and adds the outcome to `others` for the first rank.
  Status wait_and_tell(OtherRanks& others);
  // Executor::abandon in two calls, since the first rank's handoffs may only end once the steps of
  // all ranks are over.
  Status wait_for_all() noexcept;
  void drop_all() noexcept;  // requires wait_for_all()
  bool oldest_has_ended();
  StepTimes& times() { return times_; }

 private:
  struct Step {
    std::vector<std::uint64_t> entries;  // the entries' ids
    std::size_t num_samples = 0;
    Buffer sampled;  // host memory
    Buffer states;   // host memory for rows of the model's states
    bool wants_states = false;
    std::unique_ptr<Event> done;
    // Together with `done` it measures the step's time: for the costs, and for traces if tracing
    // was on from the start. Null if neither needs it.
    std::unique_ptr<Event> begins;
    bool is_timed = false;
    std::int32_t num_rows = 0;
    Status status;  // of the enqueueing
    TimePoint begun;
    TimePoint launched;  // when its first kernel was launched
    double gap_seconds = 0;
    std::optional<StepKind> kind;           // set for steps that wait for no weights or workers
    bool awaited_masks = false;             // such steps may still have waited for masks
    std::optional<OfferedHandoff> handoff;  // set for steps with cold rows

    std::size_t num_groups() const { return handoff ? handoff->step().groups.size() : 0; }
  };

  StepPipeline(const Options& options, Model& model, const KvCache& cache, DeviceLane adapters,
               Handoff* handoff, const Clock& clock);
  void fill(const StepPlan& plan, Step& step);
  void enqueue_samples(Step& step, const StepInput& input, const std::uint32_t* masks);
  void abandon_open(Step& step);
  void note_cold(SlotId slot, std::int32_t rows);
  void plan_handoff(const HandoffStep* first);
  void end_handoff(Step& step, const OtherRanks& others, double seconds, TimePoint end,
                   StepResult& result);
  bool leads() const { return adapters_.rank() == 0; }
  void learn(const Step& step, double seconds);
  // The index of the step that was enqueued `ago` steps ago; 1: the newest.
  std::size_t index_before(std::size_t ago) const {
    return (next_ + steps_.size() - ago) % steps_.size();
  }
  const Step& step_before(std::size_t ago) const { return steps_[index_before(ago)]; }
  const Step& oldest() const { return step_before(in_flight_); }
  double look_for_gap();
  double seconds_of(const Step& step, TimePoint end) const;
  void trace_step(const Step& step, TimePoint end) const noexcept;

  const Options options_;
  Model* model_;
  const KvCache* cache_;
  const DeviceLane adapters_;
  Handoff* handoff_;
  const Clock* clock_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<StepBatch> batch_;
  DecodeGraphs graphs_;
  LoraHalves halves_;
  Buffer sampled_;  // device memory: samples of the step enqueued last
  // Masks of the step enqueued last, [max_sequences, mask_words]. One buffer of each kind is
  // enough, as a step's masks are filled in after those of the step before have been used.
  Buffer masks_;         // host memory
  Buffer device_masks_;  // device memory
  struct Open {
    StepInput input;
    std::int32_t num_masks;
  };
  std::optional<Open> open_;  // the step enqueued last, if it waits for masks
  std::array<Step, kMaxStepsInFlight> steps_;
  std::size_t next_ = 0;  // index of the step to fill
  std::size_t in_flight_ = 0;
  std::vector<AdapterRows> cold_;          // of the step being enqueued: not fully arrived
  std::optional<PlannedHandoff> planned_;  // of the step being enqueued
  LoadWaits waits_;                        // the parts of loads that this step waits for
  StepTimes times_;
  Status failure_;  // of the stream, until no step is in flight
  std::uint64_t num_ended_ = 0;
};

}  // namespace tandem
