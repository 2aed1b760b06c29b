// The forward pass of the Llama family (Llama, Mistral, Qwen2, Qwen3), written once over the
// device interface, for a device that holds all of the model or a shard of it (loader/shard.h).
//
// Every shard computes the same step at the same time. The residual is the same on all: what each
// has computed of a layer's two sums, and of the embedding, is added up by an all_reduce, and the
// logits of their ranges of the vocabulary are gathered.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/loader/shard.h"
#include "engine/memory/kv_cache.h"
#include "engine/model/layer_waits.h"
#include "engine/model/model_weights.h"
#include "engine/model/step_batch.h"
#include "engine/model/step_handoff.h"
#include "gpu/device.h"

namespace tandem {

// Where the adapters' matrices are: [slots][layers][kNumModules] in device memory.
struct AdapterTable {
  const LoraMatrix* matrices = nullptr;
  LoraPages pages;
  // Before its layers read adapters that are on their way. Null: all are there. A step that waits
  // is not for a recording of the whole.
  LayerWaits* waits = nullptr;
};

// Sizes of the work space, fixed when the model is made.
struct ModelLimits {
  std::int32_t max_rows = 0;       // tokens in a step
  std::int32_t max_samples = 0;    // rows that get logits
  std::int64_t max_positions = 0;  // context length
  std::int32_t max_lora_rank = 0;  // 0: no adapters
};

// Owns weights and work space. One thread at a time enqueues steps.
class LlamaModel {
 public:
  // `config` is the whole model's. `communicator`: the rank whose shard this is; it outlives the
  // model. Null: all of it.
  static Result<std::unique_ptr<LlamaModel>> load(const ModelConfig& config,
                                                  const WeightSource& source, DType dtype,
                                                  const ModelLimits& limits, Device& device,
                                                  const LoadProgress& progress,
                                                  Communicator* communicator = nullptr);

  // Bytes of work space that load() allocates beside the weights.
  static std::size_t workspace_bytes(const ModelConfig& config, Shard shard, DType dtype,
                                     const ModelLimits& limits);

  // Stream::tune_gemm for the products of steps, before the stream's first step or recording.
  // Overwrites the work space; waits.
  Status tune(Stream& stream);

  // Tells the stream the shape of the step's attention; before compute(), and before every launch
  // of a recording of it. A padded input is planned as a recorded one.
  void plan_attention(Stream& stream, const StepInput& input, const KvCache& cache) const;

  // Enqueues one step: computes the rows, appends their keys and values to `cache`, and leaves
  // logits() for the rows of input.sample_rows. Never waits; may be recorded, but where the table
  // says that it waits for loads. Only of a shard, and of a step of up to max_samples rows, are
  // adapters halved (input.halved), on all ranks alike.
  void compute(Stream& stream, const StepInput& input, const KvCache& cache,
               const AdapterTable& adapters, const StepHandoff* handoff = nullptr);

  // plan_attention() and compute().
  void forward(Stream& stream, const StepInput& input, const KvCache& cache,
               const AdapterTable& adapters, const StepHandoff* handoff = nullptr);

  // Enqueues the choice of a token for each sample of `input`, after forward(); `out` is device
  // memory for input.num_samples tokens, `masks` what SampleRow::mask counts in.
  void sample(Stream& stream, const StepInput& input, SampledToken* out,
              const std::uint32_t* masks = nullptr);

  // [num_samples, vocab] f32 of the last forward(), in device memory; sample() overwrites it.
  TensorView logits(std::int32_t num_samples) const;

  // The shape of what lies here: of a shard, its own heads and columns.
  const ModelConfig& config() const { return config_; }
  Shard shard() const { return shard_; }
  DType dtype() const { return dtype_; }
  const ModelLimits& limits() const { return limits_; }
  std::size_t weight_bytes() const { return weights_.bytes(); }
  std::size_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  LlamaModel() = default;

  // Views of the work space, for the most rows a step may have.
  struct Workspace {
    TensorView residual;    // [T, H] f32: the stream that every layer adds to
    TensorView x;           // [T, H] normed input of a projection
    TensorView qkv;         // [T, q + 2 kv]
    TensorView attention;   // [T, q]
    TensorView gate_up;     // [T, 2 ffn]
    TensorView activation;  // [T, ffn]
    TensorView sampled;     // [S, H] f32: residual of the rows that get logits
    TensorView logits;      // [S, vocab] f32
    // Of a shard: [S, ..] f32, adapters' v as all ranks have computed it. A step's views of it, and
    // of what Shared has, are as wide as it needs.
    TensorView v;
  };
  static Workspace lay_out_workspace(const ModelConfig& config, Shard shard, DType dtype,
                                     const ModelLimits& limits, std::byte* base,
                                     std::size_t& bytes);
  // What a shard shows the others, one after another within a step: none is written to while
  // somebody may still look at it (AllReduceArgs).
  struct Shared {
    TensorView embedded;  // [T, H] f32
    TensorView attended;  // [T, H] f32: this rank's part of what o adds to the residual
    TensorView fed;       // [T, H] f32: of what down adds to it
    TensorView logits;    // [S, vocab of the shard] f32
    // Of adapters that are halved: this rank's share of v, [S, ..] f32, of the projections before a
    // sum, and its part of v of those that make the sum.
    TensorView share_of_v;
    TensorView part_of_v;
  };
  static Shared lay_out_shared(const ModelConfig& config, Shard shard, const ModelLimits& limits,
                               std::byte* base, std::size_t& bytes);

  struct Step;  // what the parts of one forward() share

  // One projection: y = x w^T (+ bias), or y += of it, and the adapters' deltas for its modules'
  // columns `outs` of y.
  struct Projection {
    Site site;
    const TensorView& x;
    const TensorView& w;
    const TensorView& bias;
    const TensorView& y;
    bool accumulate;
    std::initializer_list<TensorView> outs;
  };

  Status make_shared(const ModelConfig& config, Shard shard);
  Step cut(Stream& stream, const StepInput& input, const KvCache& cache,
           const AdapterTable& adapters, const StepHandoff* handoff) const;
  bool may_drop_rows(const Step& step) const;
  void begin(Step& step);
  void compute_layer(Step& step, std::int64_t layer);
  void end(Step& step);
  // The residual, and its norm, x, which the next projection reads: `part` is this shard's of what
  // is to be added.
  void join(Step& step, const TensorView& part, bool accumulate, const TensorView& weight);
  void append(Step& step, std::int64_t layer);  // q, and keys and values into the cache
  void attend(Step& step, std::int64_t layer);
  void drop_rows(Step& step) const;
  void attention_out(Step& step, std::int64_t layer);  // o, and the norm behind it
  void mlp_block(Step& step, std::int64_t layer);
  void project(Step& step, std::int64_t layer, const Projection& projection);
  // Whether project() adds anything to its product.
  static bool has_deltas(const Step& step, std::int64_t layer, Site site);
  // LoraArgs in two halves, and what the ranks tell each other in between.
  void gather_halves(Step& step, LoraArgs args);
  void sum_halves(Step& step, LoraArgs args);

  ModelConfig config_;
  Communicator* communicator_ = nullptr;  // null: the whole model lies here
  Shard shard_;
  VocabRange vocab_;  // whose rows of embedding and head do
  DType dtype_ = DType::f32;
  ModelLimits limits_;
  ModelWeights weights_;
  Buffer rope_;
  TensorView rope_view_;  // [positions, 2, d / 2] f32
  Buffer workspace_;
  Workspace work_;
  Buffer shared_memory_;
  Shared shared_;
};

}  // namespace tandem
