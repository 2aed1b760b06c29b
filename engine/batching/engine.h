// The engine: one thread that plans a step, has it run on the device and, while the next one runs
// already, hands out what it produced.
//
//   submit (any thread) -> inbox -> [engine thread] scheduler -> StepPipeline -> device
//                                   -> OutputText -> GenerationState -> reader (any thread)
//
// The engine thread alone writes scheduler, sequences and pages; everything else crosses through
// the inbox (submissions), atomics (cancellation) and GenerationState (news).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/adapters/adapter_store.h"
#include "engine/adapters/device_tier.h"
#include "engine/base/clock.h"
#include "engine/batching/adapter_gate.h"
#include "engine/batching/scheduler.h"
#include "engine/batching/service.h"
#include "engine/batching/step_pipeline.h"
#include "engine/handoff/handoff.h"
#include "engine/handoff/handoff_options.h"
#include "engine/memory/kv_cache.h"
#include "engine/memory/prefix_cache.h"
#include "engine/model/llama.h"
#include "engine/tokenizer/tokenizer.h"
#include "gpu/device.h"

namespace tandem {

struct EngineOptions {
  std::int32_t max_num_seqs = 256;
  std::int32_t max_num_batched_tokens = 2048;
  std::int32_t max_prefill_chunk = 0;  // 0: only max_num_batched_tokens limits a chunk
  std::int32_t max_model_len = 0;      // tokens of prompt and output; > 0
  std::int32_t num_pages = 0;          // at least one sequence of max_model_len must fit
  std::int32_t page_tokens = 16;
  bool prefix_cache = true;
  std::int32_t max_queue = 4096;            // waiting continuations before 429
  std::int32_t max_adapters = 4096;         // loaded at once, in any tier
  std::int32_t max_device_adapters = 1024;  // on the device at once, if their pages fit
  std::int32_t max_lora_rank = 512;
  // Shared memory for adapters, an even share on the node of each of the handoff's groups.
  std::size_t host_tier_bytes = std::size_t{64} << 20;
  AdapterMode adapter_mode = AdapterMode::pipelined;
  HandoffOptions handoff;            // of the modes cpu_assist and planned; no groups: no workers
  bool overlap = true;               // prepare a step while the one before it runs
  std::int32_t max_graph_batch = 0;  // rows up to which decode steps are recorded; 0: never
  bool record_at_start = false;      // all of them, before the first request
  bool tune_at_start = false;        // measure how the device best computes the model's products
};

class Engine final : public GenerationService {
 public:
  // Loads the model into the device and starts the engine thread. `device` and `tokenizer` outlive
  // the engine. The message of a failure names what did not fit and which setting to change.
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options,
                                                const ModelConfig& config,
                                                const WeightSource& weights, DType dtype,
                                                Device& device, const Tokenizer& tokenizer,
                                                const Clock& clock, const LoadProgress& progress);
  // Cancels what still runs and joins the thread.
  ~Engine() override;

  Result<std::unique_ptr<Generation>> submit(GenerationRequest request) override;
  Status load_adapter(const std::string& name, const std::string& path, bool in_place,
                      bool pinned) override;
  Status unload_adapter(const std::string& name) override;
  std::vector<AdapterInfo> adapters() const override;
  EngineStats stats() const override;
  bool has_adapter(const std::string& name) const override;
  void drain() override;
  bool ready() const override;

  // Why the engine has ended by itself: its device failed for good (StatusCode::fatal), and with it
  // all requests. Nothing but a new process can help. Ok as long as it works.
  Status failure() const;

  AdapterStore& adapter_store() { return *adapters_; }
  const LlamaModel& model() const { return *model_; }
  const EngineOptions& options() const { return options_; }

 private:
  Engine(const EngineOptions& options, const PoolLayout& layout, const Tokenizer& tokenizer,
         const Clock& clock);

  // An adapter that is to be on the device for good, and who waits to hear that it is.
  struct KeepRequest {
    AdapterLease adapter;
    std::promise<Status> done;
  };

  Status check(const GenerationRequest& request) const;
  void run();
  bool take_inbox();  // false: time to end
  void look_after_adapters();
  void help_stuck();
  void keep_adapters();
  std::optional<Status> advance(const KeepRequest& request);  // nothing: not yet
  Status keep_on_device(const AdapterLease& adapter);         // any thread
  void drop_cancelled();
  Status make_handoff(Device& device, const ModelConfig& config, DType dtype);
  void make_gate();
  void start_loads();
  void run_steps();
  void note_scheduled(const std::vector<ScheduledSequence>& plan, TimePoint now);
  Duration hand_out_oldest();  // returns how long it waited for the device
  void wait_for_arrivals();
  void digest(const FinishedStep& step);
  static Status content_of(const StepEntry& entry);
  void replay(const ServedAdapter& adapter);
  void note_served(const FinishedStep& step);
  void digest_entry(const StepEntry& entry, const SampledToken* samples);
  void accept_token(Sequence& sequence, std::int64_t index, const SampledToken& sampled);
  void end_request(Sequence& sequence, FinishReason reason, const Status& why);
  void finish(Sequence& sequence, OutputDelta delta);
  void publish_stats();
  void end_if_fatal(const Status& status);
  void deliver();

  const EngineOptions options_;
  const Tokenizer* tokenizer_;
  const Clock* clock_;
  PagePool pool_;  // the engine thread's own; before all that gives pages back
  std::unique_ptr<PrefixCache> prefixes_;  // null: off
  std::unique_ptr<LlamaModel> model_;
  std::unique_ptr<AdapterStore> adapters_;
  KvCache cache_;
  std::unique_ptr<Handoff> handoff_;         // null: nothing is handed over
  std::unique_ptr<DeviceTier> device_tier_;  // the engine thread's own, like the gate
  std::unique_ptr<AdapterGate> gate_;

  // The engine thread's own.
  Scheduler scheduler_;
  // Out of the scheduler, but with rows in a step under way: their adapters stay until it is over.
  std::vector<std::unique_ptr<Sequence>> ended_;
  std::unique_ptr<StepPipeline> pipeline_;
  bool step_was_empty_ = true;
  std::vector<KeepRequest> keeping_;
  // News of this step, delivered after its statistics are published: whoever has read the last of a
  // request finds it gone from the statistics, and readers wake while the next step already runs.
  struct News {
    std::shared_ptr<GenerationState> state;
    OutputDelta delta;
    GenerationStats stats;
  };
  std::vector<News> outbox_;
  EngineStats counts_;  // what the engine thread counts, copied to stats_

  mutable std::mutex inbox_mutex_;
  std::condition_variable inbox_changed_;
  std::vector<std::unique_ptr<Sequence>> inbox_;  // guarded by inbox_mutex_, like all below
  std::vector<KeepRequest> keep_inbox_;
  bool adapter_news_ = false;
  std::size_t waiting_ = 0;  // sequences beyond the inbox that are not running
  bool draining_ = false;
  bool stopping_ = false;
  Status failure_;
  EngineStats stats_;
  std::mt19937_64 seeds_;
  std::uint64_t next_arrival_ = 0;

  std::thread thread_;
};

}  // namespace tandem
