// The forward pass of any model that a ModelSpec describes, using the device interface. A device
// holds the whole model or a shard of it (loader/shard.h).
//
// All shards compute the same step at the same time, and have the same residual: an all_reduce adds
// up their parts of the embedding and of the two sums of each layer, and the logits of their ranges
// of the vocabulary are gathered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/loader/shard.h"
#include "engine/loader/weights.h"
#include "engine/memory/kv_cache.h"
#include "engine/model/layers/attention.h"
#include "engine/model/layers/layer_step.h"
#include "engine/model/layers/workspace.h"
#include "engine/model/spec/model_spec.h"
#include "engine/model/step/adapter_table.h"
#include "engine/model/step/step_batch.h"
#include "engine/model/step/step_handoff.h"
#include "engine/model/weights/model_weights.h"
#include "gpu/device.h"

namespace tandem {

// Owns the weights and the work space. Only one thread at a time may enqueue steps.
class Model {
 public:
  // `spec`: that of the whole model; it must be computable (check_computable). Refuses heads and
  // weights that the device does not compute. `communicator`: that of the shard's rank, which
  // outlives the model; null: the device holds the whole model.
  static Result<std::unique_ptr<Model>> load(const ModelSpec& spec, const WeightSource& source,
                                             DType dtype, const ModelLimits& limits, Device& device,
                                             const LoadProgress& progress,
                                             Communicator* communicator = nullptr);

  // Bytes of work space that load() allocates in addition to the weights.
  static std::size_t workspace_bytes(const ModelSpec& spec, Shard shard, DType dtype,
                                     const ModelLimits& limits);

  // Calls Stream::tune_gemm for the products of steps. Call it before the stream's first step and
  // graph; it overwrites the work space, and waits.
  Status tune(Stream& stream);

  // Gives the stream the shape of the step's attention. Call it before compute(), and before every
  // launch of its graph. A padded input is planned for a graph.
  void plan_attention(Stream& stream, const StepInput& input, const KvCache& cache) const;

  // Enqueues one step: computes the rows, appends their keys and values to `cache`, and leaves
  // logits() for the rows of input.sample_rows. Never blocks. It may be recorded as a graph, unless
  // `adapters` has waits for loads. input.halved may be set only in shards and in steps of up to
  // max_samples rows, and must be the same on all ranks.
  void compute(Stream& stream, const StepInput& input, const KvCache& cache,
               const AdapterTable& adapters, const StepHandoff* handoff = nullptr);

  // Calls plan_attention() and compute().
  void forward(Stream& stream, const StepInput& input, const KvCache& cache,
               const AdapterTable& adapters, const StepHandoff* handoff = nullptr);

  // Enqueues the choice of a token for each sample of `input`, after forward(). `out`: device
  // memory for input.num_samples tokens. `masks`: the array that SampleRow::mask is an index of.
  void sample(Stream& stream, const StepInput& input, SampledToken* out,
              const std::uint32_t* masks = nullptr);

  // [num_samples, vocab] f32 of the last forward(), in device memory; sample() overwrites it. Of a
  // step whose columns are the base's alone (logit_columns).
  TensorView logits(std::int32_t num_samples) const;
  // [num_samples, hidden] of the last forward(), in device memory: the sampled rows after the last
  // norm, whole on every rank. The next forward() overwrites it.
  TensorView states(std::int32_t num_samples) const;
  // The columns of the step's logits: the vocabulary and, if adapters of the step may have more
  // tokens than the base, as many as they may have. Those that a row's adapter does not have are
  // NaN, which is never drawn.
  std::int64_t logit_columns(const StepInput& input) const;

  // The part of the model on this device: for a shard, its heads and columns.
  const ModelSpec& spec() const { return part_.spec; }
  Shard shard() const { return part_.shard; }
  DType dtype() const { return part_.dtype; }
  const ModelLimits& limits() const { return limits_; }
  std::size_t weight_bytes() const { return weights_.bytes(); }
  std::size_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  Model() = default;
  Status make_workspace(const ModelSpec& whole, Device& device);
  Status make_rotary_tables(Device& device);
  TensorView logits(std::int32_t rows, std::int64_t columns) const;
  LayerStep cut(Stream& stream, const StepInput& input, const KvCache& cache,
                const AdapterTable& adapters, const StepHandoff* handoff) const;
  Layer layer(std::int64_t index) const {
    return {index, part_.spec.layer(index), weights_.layer(index)};
  }
  std::int64_t first_with_fewer_rows(const LayerStep& step) const;
  bool may_drop_rows(const LayerStep& step) const;
  void drop_rows(LayerStep& step, const Layer& layer) const;
  void compute_angles(const LayerStep& step) const;
  RotaryTable rotary_of(const LayerStep& step, const AttentionSpec& attention) const;
  void compute_layer(LayerStep& step, std::int64_t index) const;

  ModelPart part_;
  ModelLimits limits_;
  ModelWeights weights_;
  std::vector<Buffer> rotary_;
  // A tensor for each rotary embedding, f32: [positions, 2, pairs] angles; or, if it depends on
  // lengths, [choices, pairs] frequencies.
  std::vector<TensorView> rotary_views_;
  Buffer query_scale_memory_;
  TensorView query_scales_;  // [positions] f32; rank 0: no layer scales its queries
  Buffer workspace_;
  Workspace work_;
  Buffer shared_memory_;
  SharedSpace shared_;
};

}  // namespace tandem
