// The engine in this process: a model, its adapters, and a thread that plans steps, runs them on
// the device and delivers the results of a step while the next one runs.
//
//   submit (any thread) -> Inbox -> [EngineLoop, the engine thread] -> Executor -> device
//                          GenerationState <- Deliveries <- samples <-
//
// The functions of this class run on the callers' threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/adapters/adapter_store.h"
#include "engine/adapters/cold_start_log.h"
#include "engine/batching/engine_loop.h"
#include "engine/batching/engine_options.h"
#include "engine/batching/inbox.h"
#include "engine/constraint/added_tokens.h"
#include "engine/constraint/constraint_compiler.h"
#include "engine/executor/executor.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/prefix_cache.h"
#include "engine/model/model.h"
#include "engine/recording/recording_writer.h"
#include "engine/service/service.h"
#include "engine/tokenizer/tokenizer.h"
#include "gpu/device.h"
#include "scheduler/planning/coldstart/engine_lessons.h"

namespace tandem {

class Engine final : public GenerationService {
 public:
  // Loads the model to the device, or its shards to several (loader/shard.h), and starts the engine
  // thread. Devices, `tokenizer` and `clock` outlive the engine. An error names what did not fit
  // and the setting to change.
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options,
                                                const ModelSpec& config,
                                                const WeightSource& weights, DType dtype,
                                                std::span<Device* const> devices,
                                                const Tokenizer& tokenizer, const Clock& clock,
                                                const LoadProgress& progress);
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options,
                                                const ModelSpec& config,
                                                const WeightSource& weights, DType dtype,
                                                Device& device, const Tokenizer& tokenizer,
                                                const Clock& clock, const LoadProgress& progress) {
    Device* const one = &device;
    return create(options, config, weights, dtype, {&one, 1}, tokenizer, clock, progress);
  }
  // Cancels all running requests and joins the thread.
  ~Engine() override;

  Result<std::unique_ptr<Generation>> submit(GenerationRequest request) override;
  void compile(const TextConstraint& constraint, ConstraintDone done) override;
  Status load_adapter(const std::string& name, const std::string& path, bool in_place,
                      bool pinned) override;
  // Like load_adapter() in place, for an adapter that must have this digest (AdapterInfo::digest)
  // before any request uses it: invalid_argument if its folder holds other weights.
  Status load_proven_adapter(const std::string& name, const std::string& path,
                             const std::string& digest);
  Status unload_adapter(const std::string& name) override;
  std::vector<AdapterInfo> adapters() const override;
  std::vector<AdapterInfo> adapter_sets() const override;
  EngineStats stats() const override;
  bool has_adapter(const std::string& name) const override;
  AdapterFolder adapter_folder(const std::string& name) const override {
    return adapters_->folder_of(name);
  }
  std::shared_ptr<const Tokenizer> adapter_tokenizer(const std::string& name) const override;
  Result<AdapterFile> open_adapter_file(const std::string& digest,
                                        std::string_view file) const override {
    return adapters_->open_file(digest, file);
  }
  EngineView view() const override;
  std::vector<AdapterPresence> presences() const override;
  std::vector<ColdStart> cold_starts() const override { return cold_starts_.list(); }
  std::vector<CpuWorker> cpu_workers() const override;
  LearnedCosts learned_costs() const override;
  void drain() override;
  void resume() override;
  bool ready() const override;
  bool enforces_constraints() const override { return true; }

  // The reason if the engine has ended by itself: its device failed for good (StatusCode::fatal),
  // and all requests failed with it. Only a new process can help. Ok while it works.
  Status failure() const;

  // The lessons about the costs that it plans with; no value: it does not plan. Any thread.
  std::optional<EngineLessons> lessons() const;

  AdapterStore& adapter_store() { return *adapters_; }
  const Model& model() const { return executor_->model(); }
  const EngineOptions& options() const { return options_; }
  const PoolShape& pool_shape() const { return pool_.shape(); }

 private:
  // The tokens that a constraint has to allow beside the base's; null: it has none to.
  Result<std::shared_ptr<const AddedTokens>> added_tokens(const GenerationRequest& request,
                                                          const ServedAdapter& adapter);
  Result<std::shared_ptr<const ScoreHead>> score_head_for(
      const GenerationRequest& request, const std::shared_ptr<const ScoreHead>& own) const;
  Status resolve_constraint(GenerationRequest& request);
  Engine(const EngineOptions& options, const PoolShape& pool, const Tokenizer& tokenizer,
         const Clock& clock);

  const EngineOptions options_;
  const Tokenizer* tokenizer_;
  AddedTokensOfAdapters added_tokens_;
  const Clock* clock_;
  ColdStartLog cold_starts_;  // before all members that write to it
  // Used by the engine thread only, like the executor; before all members that give pages back.
  PagePool pool_;
  std::unique_ptr<PrefixCache> prefixes_;  // null: off
  std::unique_ptr<AdapterStore> adapters_;
  std::unique_ptr<ConstraintCompiler> constraints_;
  Inbox inbox_;
  std::mt19937_64 seeds_;  // used in MakeSequences, under the inbox's mutex
  std::unique_ptr<Executor> executor_;
  std::shared_ptr<const ScoreHead> score_;      // the base's; null: it has none
  std::unique_ptr<RecordingWriter> recording_;  // null: off
  std::unique_ptr<EngineLoop> loop_;
  std::thread thread_;
};

}  // namespace tandem
