// Times steps of a chosen shape directly on a Model, without a scheduler.
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
  std::int32_t context = 128;  // tokens of each sequence before the timed step
  std::int32_t prefill_tokens = 512;
  std::int32_t adapter_rank = 16;  // each of `batch` adapters has this rank on all modules
  std::uint64_t seed = 1;
};

// A model with dummy weights, `batch` sequences with computed caches, and as many distinct
// adapters.
class StepBench {
 public:
  static Result<std::unique_ptr<StepBench>> create(Device& device, const ModelSpec& config,
                                                   DType dtype, const StepBenchOptions& options,
                                                   const LoadProgress& progress);

  // Runs one decode step of the first `batch` sequences and discards the sampled tokens, so that
  // every call does the same work. With `adapters`, sequence i uses adapter i. Returns seconds.
  Result<double> decode(std::int32_t batch, bool adapters);
  // Processes all prompt tokens of one more sequence in one step. Returns seconds.
  Result<double> prefill();

  // The logits that decode() or prefill() computes before sampling: [rows * vocab].
  Result<std::vector<float>> decode_logits(std::int32_t first, std::int32_t batch, bool adapters);
  Result<std::vector<float>> prefill_logits();
  // The logits of the last prompt token alone, with the cache that prefill_logits() left.
  Result<std::vector<float>> last_prompt_token_logits();

  // Weight bytes that a decode step reads: all, except an untied embedding, of which only rows are
  // read.
  double decode_weight_bytes() const;
  // FLOPs of the linear layers and of the head for one row; attention is not counted.
  double prefill_flops() const;
  // Bytes that the engine allocated on the device: weights, work space, cache, adapters.
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
  std::vector<BlockTable> tables_;                 // the last one belongs to the prefill sequence
  std::vector<std::vector<std::int32_t>> tokens_;  // by sequence
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<StepBatch> batch_;
  Buffer sampled_;
};

}  // namespace tandem
