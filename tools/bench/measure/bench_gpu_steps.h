// A model on a device under the stopwatch: decode steps as the engine runs them (recorded, several
// enqueued back to back, sampled) and whole prompts, straight on Model, no scheduler between.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/adapters/adapter_store.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/memory/block_table.h"
#include "engine/memory/kv_cache.h"
#include "engine/memory/page_pool.h"
#include "engine/model/graphs/decode_graphs.h"
#include "engine/model/model.h"
#include "engine/model/spec/model_spec.h"
#include "engine/model/step/step_batch.h"
#include "gpu/device.h"
#include "tools/bench/common/bench_report.h"

namespace tandem {

// `count` distinct adapters of one rank.
struct AdapterSet {
  std::string name;  // "rank 64 qkv"
  std::int32_t rank = 0;
  std::vector<Module> modules;
  std::int32_t count = 0;
};

struct GpuStepOptions {
  std::int32_t batch = 64;     // sequences
  std::int32_t context = 512;  // tokens of each before the step that is timed
  std::int32_t prefill_tokens = 2048;
  std::vector<AdapterSet> sets;  // all on the device together
  // Steps enqueued back to back for one sample: the device then never waits for the host, as in
  // the engine, which prepares a step while the one before it runs.
  int steps_per_sample = 4;
  int warm_up = 3;  // samples that are thrown away
  std::uint64_t seed = 1;
};

class GpuStepBench {
 public:
  static constexpr int kNoAdapters = -1;

  static Result<std::unique_ptr<GpuStepBench>> create(Device& device, const ModelSpec& config,
                                                      DType dtype, const GpuStepOptions& options,
                                                      const LoadProgress& progress);
  ~GpuStepBench();

  // Milliseconds of a decode step of the first `batch` sequences, each with an adapter of its own
  // out of `set`. A sample is the mean of a few steps enqueued back to back.
  Result<Samples> decode(std::int32_t batch, int set, int samples);
  // Milliseconds of a step with the first `tokens` tokens of a prompt.
  Result<Samples> prefill(std::int32_t tokens, int samples);

  // The logits of a decode step, [batch, vocab], recorded or operation by operation.
  Result<std::vector<float>> decode_logits(std::int32_t first, std::int32_t batch, int set,
                                           bool recorded);
  // Of the last of `tokens` tokens, computed in one step, or in one for all but it and one for it.
  Result<std::vector<float>> prefill_logits(std::int32_t tokens, bool in_one_step);

  double decode_bytes(std::int32_t batch, int set) const;  // that a step must read
  double prefill_flops(std::int32_t tokens) const;         // linear layers, head, attention
  double prefill_bytes() const;                            // of weights

 private:
  GpuStepBench() = default;
  Status add_adapters(Device& device, DType dtype);
  void add(std::int32_t sequence, std::int32_t start, std::int32_t count, int set);
  Status enqueue(bool recorded, bool sample);
  Result<std::vector<float>> read_logits(std::int32_t rows);
  void fill_decode(std::int32_t first, std::int32_t batch, int set);

  GpuStepOptions options_;
  ModelSpec config_;
  std::unique_ptr<Model> model_;
  KvCache cache_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<AdapterStore> adapters_;
  std::unique_ptr<DeviceTier> device_tier_;
  std::vector<std::vector<AdapterLease>> leases_;  // of each set
  std::vector<BlockTable> tables_;                 // the last one is the prompt's
  std::vector<std::vector<std::int32_t>> tokens_;
  std::unique_ptr<DecodeGraphs> graphs_;
  std::unique_ptr<StepBatch> batch_;
  Buffer sampled_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace tandem
