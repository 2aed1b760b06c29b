// A model under the stopwatch: steps of chosen shape, straight on Model, no scheduler between.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/adapters/adapter_store.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/memory/block_table.h"
#include "engine/memory/kv_cache.h"
#include "engine/model/model.h"
#include "engine/model/spec/model_spec.h"
#include "engine/model/step/step_batch.h"
#include "gpu/device.h"

namespace tandem {

struct StepBenchOptions {
  std::int32_t batch = 8;      // sequences
  std::int32_t context = 128;  // tokens of each before the step that is timed
  std::int32_t prefill_tokens = 512;
  std::int32_t adapter_rank = 16;  // of `batch` adapters on all modules
  std::uint64_t seed = 1;
};

// Dummy weights, `batch` sequences with computed caches, and as many distinct adapters.
class StepBench {
 public:
  static Result<std::unique_ptr<StepBench>> create(Device& device, const ModelSpec& config,
                                                   DType dtype, const StepBenchOptions& options,
                                                   const LoadProgress& progress);

  // One decode step of the first `batch` sequences, the sampled tokens thrown away, so that every
  // call does the same work. With `adapters`, sequence i uses adapter i. Seconds.
  Result<double> decode(std::int32_t batch, bool adapters);
  // All prompt tokens of one more sequence in one step. Seconds.
  Result<double> prefill();

  // The logits of what decode() or prefill() computes, before sampling: [rows * vocab].
  Result<std::vector<float>> decode_logits(std::int32_t first, std::int32_t batch, bool adapters);
  Result<std::vector<float>> prefill_logits();
  // Of the last prompt token alone, on the cache that prefill_logits() left.
  Result<std::vector<float>> last_prompt_token_logits();

  // What a decode step reads of the weights: all, less an untied embedding, of which it reads rows.
  double decode_weight_bytes() const;
  // Of the linear layers and the head's one row; attention is not counted.
  double prefill_flops() const;
  // What the engine allocated on the device: weights, work space, cache, adapters.
  std::size_t device_bytes() const;
  std::size_t weight_bytes() const { return model_->weight_bytes(); }

 private:
  StepBench() = default;
  void add(std::int32_t sequence, std::int32_t start, std::int32_t count, bool adapters);
  Result<double> run(bool sample);
  Result<std::vector<float>> read_logits();

  StepBenchOptions options_;
  Device* device_ = nullptr;
  std::unique_ptr<Model> model_;
  std::unique_ptr<AdapterStore> adapters_;
  std::vector<AdapterLease> leases_;
  KvCache cache_;  // KV and adapters
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<DeviceTier> device_tier_;
  std::vector<BlockTable> tables_;                 // the last one is the prefill sequence's
  std::vector<std::vector<std::int32_t>> tokens_;  // of each sequence
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<StepBatch> batch_;
  Buffer sampled_;
};

}  // namespace tandem
