// Steps under the stopwatch, of a model with dummy weights: as an engine runs them, plans for an
// Executor, on one device or on several that share the model; or straight on the Model of one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/adapters/adapter_store.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/executor/executor.h"
#include "engine/memory/block_table.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/pool_layout.h"
#include "engine/model/model.h"
#include "engine/model/spec/model_spec.h"
#include "gpu/device.h"
#include "tools/bench/measure/bench_adapters.h"

namespace tandem {

// `count` distinct adapters of one rank.
struct AdapterSet {
  std::string name;  // "rank 64 qkv"
  std::int32_t rank = 0;
  std::vector<Module> modules;
  std::int32_t count = 0;
};

struct ExecutorBenchOptions {
  std::int32_t batch = 32;     // sequences
  std::int32_t context = 512;  // tokens of each before the step that is timed
  std::int32_t prefill_tokens = 512;
  std::vector<AdapterSet> sets;  // all on the devices together
  // Enqueued one behind the other: the device then never waits for the host, as in the engine,
  // which prepares a step while the one before it runs.
  int steps_per_sample = 4;
  // Straight on the Model, of one device: all steps of a sample are enqueued before any is waited
  // for, nothing comes back from them, and logits can be read.
  bool straight = false;
  std::uint64_t seed = 1;
};

// Dummy weights, `batch` sequences with computed caches, and adapters. On a GPU decode steps are
// replayed from recordings. One thread.
class ExecutorBench {
 public:
  static constexpr int kNoAdapters = -1;

  // The devices outlive it.
  static Result<std::unique_ptr<ExecutorBench>> create(std::span<Device* const> devices,
                                                       const ModelSpec& config, DType dtype,
                                                       const ExecutorBenchOptions& options,
                                                       const LoadProgress& progress);
  ~ExecutorBench();

  // Seconds of a decode step of the first `batch` sequences, each with an adapter of its own out of
  // `set`: the mean of a few. The sampled tokens are thrown away, so that each does the same work.
  Result<double> decode(std::int32_t batch, int set);
  // Seconds of a step with the first `tokens` tokens of one more sequence.
  Result<double> prefill(std::int32_t tokens);

  // These two want an Executor's steps: how adapters are shared out from the next one on, and what
  // that decode step samples, greedily, with its log-probabilities.
  void use(LoraSharding sharding) { executor_->use(sharding); }
  Result<std::vector<SampledToken>> sampled(std::int32_t batch, int set);

  // These two want straight steps: the logits of a decode step, [batch, vocab], from a recording,
  // where there are any, or operation by operation; and of the last of `count` tokens of the one
  // more sequence from `start` on. What precedes them, earlier steps have computed.
  Result<std::vector<float>> decode_logits(std::int32_t first, std::int32_t batch, int set,
                                           bool recorded);
  Result<std::vector<float>> prefill_logits(std::int32_t start, std::int32_t count);

  const Model& model() const;  // of the first device, as all that follows
  // The bytes of weights that every step has to read: all but the embedding, unless it is the head
  // as well. A decode step also reads its keys and values, and its adapters.
  double weight_bytes_read() const;
  double decode_bytes(std::int32_t batch, int set) const;
  // The first `tokens` tokens of a prompt: linear layers and one row of the head; attention apart.
  double linear_flops(std::int32_t tokens) const;
  double attention_flops(std::int32_t tokens) const;
  // Of weights, work space and the pages in use, of keys and values or adapters.
  std::size_t device_bytes() const;

 private:
  struct Straight;

  ExecutorBench();
  std::vector<DummyAdapter> wanted_adapters() const;
  Status make_store(Device& device, DType dtype);
  Status make_steps(std::span<Device* const> devices, DType dtype, const LoadProgress& progress);
  Status make_straight(const ExecutorOptions& options, const WeightSource& weights, DType dtype,
                       Device& device, const LoadProgress& progress);
  Status load_adapters(bool on_gpu);
  Status fill_caches();
  DeviceTier& tier() const;
  void add(StepPlan& plan, std::int32_t sequence, std::int32_t start, std::int32_t count,
           int set) const;
  StepPlan decode_plan(std::int32_t first, std::int32_t batch, int set) const;
  StepPlan prompt_plan(std::int32_t start, std::int32_t count) const;
  Status run(const StepPlan& plan, int steps);
  Result<double> time(const StepPlan& plan);

  ExecutorBenchOptions options_;
  ModelSpec config_;  // of the whole model
  std::int32_t num_devices_ = 1;
  const SteadyClock clock_{};
  PoolLayout layout_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<AdapterStore> adapters_;
  std::vector<BlockTable> tables_;            // the last one is the prompt's
  std::vector<std::vector<TokenId>> tokens_;  // of each sequence
  std::unique_ptr<Executor> executor_;        // null: straight
  std::unique_ptr<Straight> straight_;
  std::vector<std::vector<AdapterLease>> leases_;  // of each set
};

}  // namespace tandem
