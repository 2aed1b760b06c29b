// The data that the layers of a model share while a step is enqueued.
#pragma once

#include <cstdint>

#include "engine/loader/shard.h"
#include "engine/memory/kv_cache.h"
#include "engine/model/layers/workspace.h"
#include "engine/model/spec/model_spec.h"
#include "engine/model/step/adapter_table.h"
#include "engine/model/step/step_batch.h"
#include "engine/model/step/step_handoff.h"
#include "engine/model/weights/model_weights.h"
#include "gpu/device.h"

namespace tandem {

// The part of a model that is on one device, as used by layers.
struct ModelPart {
  ModelSpec spec;  // of the shard: its heads and columns
  DType dtype = DType::f32;
  Shard shard;
  Communicator* communicator = nullptr;  // null: the whole model is on this device
  VocabRange vocab;                      // the rows of embedding and head on this device
  std::int32_t max_added_tokens = 0;     // as in ModelLimits

  bool is_whole() const { return communicator == nullptr; }
  float norm_eps() const { return static_cast<float>(spec.rms_norm_eps); }
  // A multiplier m of what blocks add to the residual costs nothing: the residual is kept divided
  // by m. Then blocks add their sums as they are, and norm(x) = norm(x / m) with eps / m^2.
  double residual_multiplier() const { return spec.layers.front().residual_multiplier; }
  float residual_eps() const {
    return static_cast<float>(spec.rms_norm_eps / (residual_multiplier() * residual_multiplier()));
  }
};

// A step that is being enqueued.
struct LayerStep {
  Stream& stream;
  const ModelPart& part;
  StepInput input;
  const KvCache& cache;
  const AdapterTable& adapters;
  Workspace work;      // cut to the rows of this step
  SharedSpace shared;  // cut to the rows of this step
  const StepHandoff* handoff = nullptr;
  HandoffJob job = {};          // of the first place (StepHandoff); only with a handoff
  TensorView layer_input = {};  // [T, P] f32: the part of inputs by layer of the layer at hand
  // True if `work` and `shared` are cut to the rows with logits after the last layer's attention.
  bool drops_rows = false;
};

// One layer of the model.
struct Layer {
  std::int64_t index;
  const LayerSpec& spec;  // of the shard
  const LayerWeights& weights;
};

}  // namespace tandem
