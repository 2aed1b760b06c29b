// The loop of the engine thread.
//
//   Inbox -> ContinuousBatcher (who computes how much) -> build_plan -> Executor
//                                                     ... -> StepResult -> Deliveries -> readers
//
// Only this thread writes scheduler, sequences and pages, and uses the executor. Other threads
// exchange data with it through the inbox, atomics (cancellation) and GenerationState (results).
//
// An exception does not end the thread. One that concerns a single sequence (adding it, delivering
// its token) ends that sequence. After any other, the steps in flight are waited for and dropped,
// and every sequence is recomputed from its known tokens: its reader only sees a delay. If that
// repeats before a step has succeeded, the running sequences are ended as well, then all sequences,
// and at last the engine.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "engine/adapters/adapter_store.h"
#include "engine/batching/adapter_gate.h"
#include "engine/batching/adapter_keeper.h"
#include "engine/batching/batch/continuous_batcher.h"
#include "engine/batching/batch/plan_builder.h"
#include "engine/batching/deliveries.h"
#include "engine/batching/engine_options.h"
#include "engine/batching/engine_reporter.h"
#include "engine/batching/inbox.h"
#include "engine/constraint/mask_thread.h"
#include "engine/executor/executor.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/prefix_cache.h"
#include "engine/model/step/steps_in_flight.h"
#include "engine/recording/recording_writer.h"
#include "engine/service/service.h"

namespace tandem {

class EngineLoop {
 public:
  // The objects that the loop works on; all of them outlive it.
  struct Parts {
    PagePool& pool;
    PrefixCache* prefixes;  // null: off
    AdapterStore& store;
    Executor& executor;
    Inbox& inbox;
    RecordingWriter* recording;  // null: off
    ColdStartLog& cold_starts;
    const Clock& clock;
    EngineView view;           // the EngineReporter's first view
    std::int64_t chunk_bytes;  // of the pool's chunks, summed over devices
  };
  EngineLoop(const EngineOptions& options, const BatchLimits& limits, const Parts& parts);

  // The thread's work, until the inbox stops it: every sequence has been answered by then.
  void run() noexcept;

 private:
  bool run_round();
  bool is_due();
  Planning::Work next_work() const;
  void recover(const char* why) noexcept;
  void lose_sequences(bool waiting_too) noexcept;
  void wait_for_work();
  void take_in();
  void look_after_sequences();
  void give_up_late();
  void look_after_adapters();
  void start_loads();
  void run_step();
  bool enqueuing_would_take_long();
  void help_stuck();
  void note_scheduled(const std::vector<ScheduledSequence>& scheduled, TimePoint now);
  void enqueue(const std::vector<ScheduledSequence>& scheduled);
  void give_masks();
  Duration hand_out_oldest();  // returns how long it waited for the device
  void wait_for_step();
  bool look_in(Duration waited, Duration longest);
  void digest(const StepResult& step, const std::vector<PlannedEntry>& entries);
  void digest_entry(const StepResult& step, const PlannedEntry& entry);
  bool take(Sequence& sequence, std::span<const SampledToken> samples, const StateSum& states,
            std::int64_t next_token);
  void record_plan(const std::vector<PlannedEntry>& entries);
  void record_result(const StepResult& step, const std::vector<PlannedEntry>& entries);
  void release_held(Sequence& sequence);
  void fail_or_replay(Sequence& sequence, const Status& bad);
  void replay(const ServedAdapter& adapter);
  void publish_stats();
  void publish_view();
  void end_all() noexcept;

  const EngineOptions& options_;
  PagePool* pool_;
  PrefixCache* prefixes_;
  AdapterStore* store_;
  Executor* executor_;
  Inbox* inbox_;
  RecordingWriter* recording_;
  const Clock* clock_;
  ContinuousBatcher scheduler_;
  AdapterGate gate_;
  AdapterKeeper keeper_;
  Deliveries deliveries_;
  EngineReporter report_;
  MaskThread mask_thread_;

  Planning planning_;  // of the next step
  StepPlan plan_;      // of the step being enqueued
  // The entries of the steps in flight; step n is at n % kMaxStepsInFlight.
  std::array<std::vector<PlannedEntry>, kMaxStepsInFlight> planned_;
  std::size_t num_enqueued_ = 0;
  std::size_t num_digested_ = 0;
  bool step_was_empty_ = true;
  bool has_news_ = false;            // taken from the inbox, not handled yet
  std::uint64_t steps_through_ = 0;  // steps whose results were all handed out
  std::uint64_t steps_before_ = 0;   // steps_through_ at the last exception
  int failures_in_row_ = 0;          // exceptions since steps_through_ last rose
  Status hopeless_;                  // ends the engine when there are too many
  EngineStats counts_;
};

}  // namespace tandem
