// Steps on their way through the device: filled, enqueued, waited for, in that order, with up to
// kMaxStepsInFlight under way, so that the device finds the next one enqueued when it has finished
// one.
//
//   host    fill 1 | enqueue 1 | fill 2 | enqueue 2 | wait 1 | hand out 1 | fill 3 | enqueue 3 |
//   ... device                     | step 1 ..................... | step 2 ......................
//
// Step 2 is filled before the tokens of step 1 are known. Their places hold -1 - (index of the
// sample), and the device puts the tokens there itself, from where step 1 left them. Whatever the
// tokens then turn out to mean (a stop, say), the rows of step 2 have been computed in vain at
// worst: the stream's order keeps everything that they read and wrote in its place.
//
// A step whose samples have masks is enqueued in two parts: all but the sampling at once, the
// sampling when the masks are given. They follow from the tokens of the step before, so that the
// device computes while the host finds them.
//
//   host    enqueue 2 | wait 1 | hand out 1 | masks of 2 | sample 2 | fill 3 | enqueue 3 | wait 2 |
//   device  1 | step 2, but for its samples ................................ | samples | step 3 ...
//
// The drawing shows steps that are enqueued at once. Better is just in time (EnqueueTimer): shortly
// before the step under way ends, so that what has arrived until then is in the next one.
//
// Decode steps are launched as one recording each.
//
// Rows of adapters that are still loading are handed to CPU workers where there are any (Handoff),
// layer by layer as planned; else each layer waits for its part. One thread at a time uses it.
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
#include "engine/executor/enqueue_timer.h"
#include "engine/executor/step_forecast.h"
#include "engine/executor/step_plan.h"
#include "engine/handoff/handoff.h"
#include "engine/memory/kv_cache.h"
#include "engine/model/graphs/decode_graphs.h"
#include "engine/model/model.h"
#include "engine/model/step/lora_halves.h"
#include "engine/model/step/step_batch.h"
#include "engine/model/step/steps_in_flight.h"
#include "gpu/device.h"

namespace tandem {

class StepPipeline {
 public:
  struct Options {
    bool overlap = true;               // kMaxStepsInFlight steps under way; else one
    bool just_in_time = true;          // the second as late as possible; else as soon
    std::int32_t max_graph_batch = 0;  // rows of the largest decode step that is recorded; 0: none
    StepLimits limits;
  };

  // All arguments outlive the pipeline; so does the lane's tier. `handoff` null: nothing is handed
  // over.
  static Result<std::unique_ptr<StepPipeline>> create(const Options& options, Device& device,
                                                      Model& model, const KvCache& cache,
                                                      DeviceLane adapters, Handoff* handoff,
                                                      const Clock& clock);
  ~StepPipeline();  // waits for what is under way

  // Stream::prepare.
  Status prepare() { return stream_->prepare(); }
  // Model::tune, before anything is recorded.
  Status tune();

  // From the next step on; the same on all ranks.
  void use(const LoraHalves& halves) { halves_ = halves; }

  // Records decode steps of all sizes, with adapters of ranks up to `max_rank` and without.
  Status record_graphs(std::int32_t max_rank);

  // Enqueues the step, in two parts. The first decides what is handed over, and returns it until
  // the step has been waited for; of ranks that share the model the first one decides, and the
  // others follow what it has returned.
  const HandoffStep& plan(const StepPlan& plan, const HandoffStep* first = nullptr);
  // False: it was not enqueued as a whole; wait() says why.
  bool launch(const StepPlan& plan);
  // An operation has failed, of whichever step; never blocks.
  bool failed() const { return stream_->failed(); }

  // See Executor.
  bool awaits_masks() const { return open_.has_value(); }
  std::span<std::uint32_t> masks();
  void sample();
  std::size_t num_in_flight() const { return in_flight_; }
  bool full() const { return in_flight_ == (options_.overlap ? kMaxStepsInFlight : 1U); }
  bool empty() const { return in_flight_ == 0; }
  // What became of the oldest step on the other ranks. They have been waited for.
  struct Others {
    bool failed = false;
    std::uint64_t timed_out = 0;  // groups: a bit each
  };
  StepResult wait(const Others& others);
  StepResult wait() { return wait(Others()); }
  // Of a rank that follows: adds what the first one is to be told.
  Status wait_and_tell(Others& others);
  Status abandon() noexcept;
  bool oldest_has_ended();
  std::optional<TimePoint> plan_at(Planning::Work next) const;
  void planning(const Planning& planning) { planning_ = planning; }
  EnqueueCounts enqueue_counts() const { return timer_.counts(); }
  double next_starts_in() const { return forecast_.busy_for(clock_->now()); }
  void rest() { idle_since_.reset(); }
  void forget_counts() { timer_ = EnqueueTimer(); }

 private:
  struct Step {
    std::vector<std::uint64_t> entries;  // by their ids
    std::size_t num_samples = 0;
    Buffer sampled;  // host memory
    std::unique_ptr<Event> done;
    // With `done` it says what a step took that costs are learnt from, and any where tracing was on
    // from the start. Null where neither is.
    std::unique_ptr<Event> begins;
    bool is_timed = false;
    std::int32_t num_rows = 0;
    Status status;  // of enqueuing it
    TimePoint begun;
    TimePoint launched;  // its first kernel
    double gap_seconds = 0;
    std::optional<StepKind> kind;  // of steps that wait for nobody
    bool awaited_masks = false;    // but, perhaps, for masks
    HandoffStep handoff;
  };

  StepPipeline(const Options& options, Model& model, const KvCache& cache, DeviceLane adapters,
               Handoff* handoff, const Clock& clock);
  void fill(const StepPlan& plan, Step& step);
  void enqueue_samples(Step& step, const StepInput& input, const std::uint32_t* masks);
  void abandon_open(Step& step);
  void note_cold(SlotId slot, std::int32_t rows);
  void plan_handoff(Step& step, const HandoffStep* first);
  void describe_handoff(const StepInput& input, Step& step);
  void bring_back(const Step& step);
  void forecast(const Step& step);
  void end_handoff(Step& step, const Others& others, double seconds, TimePoint end,
                   StepResult& result);
  bool leads() const { return adapters_.rank() == 0; }
  void learn(const Step& step, double seconds);
  // The step that was enqueued `ago` steps ago; 1: the newest.
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
  Buffer sampled_;  // device memory: what the step enqueued last sampled
  // Of the step enqueued last, [max_sequences, mask_words]: one of each is enough, as its masks are
  // filled in when those of the step before have been used.
  Buffer masks_;         // host memory
  Buffer device_masks_;  // device memory
  struct Open {
    StepInput input;
    std::int32_t num_masks;
  };
  std::optional<Open> open_;  // the step enqueued last, whose masks are awaited
  std::array<Step, kMaxStepsInFlight> steps_;
  std::size_t next_ = 0;  // the step to fill
  std::size_t in_flight_ = 0;
  std::vector<AdapterRows> cold_;        // of the step being enqueued: not all there
  LoadWaits waits_;                      // what of loads it waits for
  StepForecast forecast_;                // of what is under way; unused without a handoff
  EnqueueTimer timer_;                   // of the next step
  Planning planning_;                    // of the step being enqueued
  Status failure_;                       // of the stream, until no step is under way
  std::optional<TimePoint> idle_since_;  // the device has had nothing to do, but there is work
  TimePoint seen_busy_;                  // when it was last known to have something
  TimePoint last_end_;
  std::uint64_t num_ended_ = 0;
};

}  // namespace tandem
