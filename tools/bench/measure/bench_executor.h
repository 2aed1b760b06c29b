// Times steps of a model with dummy weights: through an Executor like an engine's, on one device or
// on several that share the model; or directly on the Model of one device.
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

// A set of `count` distinct adapters of one rank.
struct AdapterSet {
  std::string name;  // "rank 64 qkv"
  std::int32_t rank = 0;
  std::vector<std::string_view> modules;
  std::int32_t count = 0;
  std::vector<Site> whole = {};  // sites of modules that are whole (modules_to_save)
  // The adapter of each sequence, from 0 to count - 1; empty: sequence i has adapter i.
  std::vector<std::int32_t> of_sequence = {};
};

struct ExecutorBenchOptions {
  std::int32_t batch = 32;     // sequences
  std::int32_t context = 512;  // tokens per sequence before the timed step
  std::int32_t prefill_tokens = 512;
  std::vector<AdapterSet> sets;  // all are on the devices at the same time
  // Number of steps enqueued one behind the other. The device then never waits for the host, as in
  // the engine, which prepares a step while the previous one runs.
  int steps_per_sample = 4;
  // Runs directly on the Model of one device: all steps of a sample are enqueued before any is
  // waited for, nothing is copied back, and logits can be read.
  bool straight = false;
  std::uint64_t seed = 1;
  DummyFormat weights = DummyFormat::bf16;
};

// Has dummy weights, `batch` sequences with computed caches, and adapters. On a GPU decode steps
// are replayed from recordings. One thread.
class ExecutorBench {
 public:
  static constexpr int kNoAdapters = -1;

  // `devices` must outlive it.
  static Result<std::unique_ptr<ExecutorBench>> create(std::span<Device* const> devices,
                                                       const ModelSpec& spec, DType dtype,
                                                       const ExecutorBenchOptions& options,
                                                       const LoadProgress& progress);
  ~ExecutorBench();

  // Seconds of a decode step of the first `batch` sequences, each with its adapter from `set`: the
  // mean of a few steps. The sampled tokens are dropped, so that each step does the same work.
  Result<double> decode(std::int32_t batch, int set);
  // Seconds of a step with the first `tokens` tokens of one additional sequence.
  Result<double> prefill(std::int32_t tokens);

  // Require an Executor. use() sets how adapters are sharded from the next step on; sampled()
  // returns the greedily sampled tokens of a decode step with their log-probabilities.
  void use(LoraSharding sharding) { executor_->use(sharding); }
  Result<std::vector<SampledToken>> sampled(std::int32_t batch, int set);

  // Require `straight`. The logits of a decode step, [batch, vocab], replayed from a recording if
  // there is one or run operation by operation; and the logits of the last of `count` tokens of the
  // additional sequence from `start` on. Earlier steps must have computed what precedes them.
  Result<std::vector<float>> decode_logits(std::int32_t first, std::int32_t batch, int set,
                                           bool recorded);
  Result<std::vector<float>> prefill_logits(std::int32_t start, std::int32_t count);

  const Model& model() const;  // of the first device, as all functions below
  // Bytes of weights that every step reads: all but the embedding, unless it is also the head. A
  // decode step reads its keys and values and its adapters, too.
  double weight_bytes_read() const;
  double decode_bytes(std::int32_t batch, int set) const;
  // FLOPs of a prompt's first `tokens` tokens: linear layers and one row of the head, no attention.
  double linear_flops(std::int32_t tokens) const;
  double attention_flops(std::int32_t tokens) const;
  // Bytes of weights, work space and used pages (keys, values, adapters).
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
  const AdapterLease& lease(int set, std::int32_t sequence) const;
  void add(StepPlan& plan, std::int32_t sequence, std::int32_t start, std::int32_t count,
           int set) const;
  StepPlan decode_plan(std::int32_t first, std::int32_t batch, int set) const;
  StepPlan prompt_plan(std::int32_t start, std::int32_t count) const;
  Status run(const StepPlan& plan, int steps);
  Result<double> time(const StepPlan& plan);

  ExecutorBenchOptions options_;
  ModelSpec spec_;  // of the whole model
  std::int32_t num_devices_ = 1;
  const SteadyClock clock_{};
  PoolLayout layout_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<AdapterStore> adapters_;
  std::vector<BlockTable> tables_;            // one per sequence, then the prompt's
  std::vector<std::vector<TokenId>> tokens_;  // one list per sequence
  std::unique_ptr<Executor> executor_;        // null if straight
  std::unique_ptr<Straight> straight_;
  std::vector<std::vector<AdapterLease>> leases_;  // by set
};

}  // namespace tandem
