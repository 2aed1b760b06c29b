// What the layers of a model share while a step is enqueued.
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

// The part of a model that a device holds, as layers see it.
struct ModelPart {
  ModelSpec spec;  // of the shard: its own heads and columns
  DType dtype = DType::f32;
  Shard shard;
  Communicator* communicator = nullptr;  // null: the whole model lies here
  VocabRange vocab;                      // whose rows of embedding and head do

  bool is_whole() const { return communicator == nullptr; }
  float norm_eps() const { return static_cast<float>(spec.rms_norm_eps); }
};

// One step on its way to the stream.
struct LayerStep {
  Stream& stream;
  const ModelPart& part;
  StepInput input;
  const KvCache& cache;
  const AdapterTable& adapters;
  Workspace work;      // cut to the rows of this step
  SharedSpace shared;  // the same
  const StepHandoff* handoff = nullptr;
  HandoffJob job = {};  // of the first place (StepHandoff); only with a handoff
  // Behind the last layer's attention `work` and `shared` are cut to the rows that get logits.
  bool drops_rows = false;
};

// One layer of the model.
struct Layer {
  std::int64_t index;
  const LayerSpec& spec;  // of the shard
  const LayerWeights& weights;
};

}  // namespace tandem
