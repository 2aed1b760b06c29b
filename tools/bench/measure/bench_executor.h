// Steps under the stopwatch as an engine runs them: plans for an Executor, on one device or on
// several that share the model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/adapters/adapter_store.h"
#include "engine/executor/executor.h"
#include "engine/memory/block_table.h"
#include "engine/memory/page_pool.h"
#include "engine/model/spec/model_spec.h"
#include "gpu/device.h"
#include "tools/bench/measure/bench_gpu_steps.h"

namespace tandem {

struct ExecutorBenchOptions {
  std::int32_t batch = 32;     // sequences
  std::int32_t context = 512;  // tokens of each before the step that is timed
  std::int32_t prefill_tokens = 512;
  std::vector<AdapterSet> sets;  // all on the devices together
  int steps_per_sample = 4;      // enqueued one behind the other
  std::uint64_t seed = 1;
};

// Dummy weights, `batch` sequences with computed caches, and adapters. One thread.
class ExecutorBench {
 public:
  static constexpr int kNoAdapters = -1;

  // The devices outlive it.
  static Result<std::unique_ptr<ExecutorBench>> create(std::span<Device* const> devices,
                                                       const ModelSpec& config, DType dtype,
                                                       const ExecutorBenchOptions& options,
                                                       const LoadProgress& progress);

  // How adapters are shared out from the next step on.
  void use(LoraSharding sharding) { executor_->use(sharding); }

  // Seconds of a decode step of the first `batch` sequences, each with an adapter of its own out of
  // `set`: the mean of a few. The sampled tokens are thrown away, so that each does the same work.
  Result<double> decode(std::int32_t batch, int set);
  // Seconds of a step with the first `tokens` tokens of one more sequence.
  Result<double> prefill(std::int32_t tokens);
  // What that decode step samples, greedily, with its log-probabilities.
  Result<std::vector<SampledToken>> sampled(std::int32_t batch, int set);

  // What the first device must read for a decode step without adapters: its weights, but of an
  // embedding that is not the head as well, and its keys and values.
  double decode_bytes(std::int32_t batch) const;

 private:
  ExecutorBench() = default;
  Status load_adapters(Device& device, DType dtype, std::int32_t num_devices);
  Status make_executor(std::span<Device* const> devices, DType dtype, const LoadProgress& progress);
  Status load_onto_devices();
  Status fill_caches();
  void add(StepPlan& plan, std::int32_t sequence, std::int32_t start, std::int32_t count,
           int set) const;
  StepPlan decode_plan(std::int32_t batch, int set) const;
  Result<double> time(const StepPlan& plan, int steps);

  ExecutorBenchOptions options_;
  ModelSpec config_;  // of the whole model
  std::int32_t num_devices_ = 1;
  std::int32_t max_rank_ = 0;
  const SteadyClock clock_{};
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<AdapterStore> adapters_;
  std::vector<BlockTable> tables_;            // the last one is the prompt's
  std::vector<std::vector<TokenId>> tokens_;  // of each sequence
  std::unique_ptr<Executor> executor_;
  std::vector<std::vector<AdapterLease>> leases_;  // of each set
};

}  // namespace tandem
