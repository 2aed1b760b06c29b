// The names under which a source of weights keeps a model's tensors.
#pragma once

#include "engine/loader/weights.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// `names` are those of a text model's safetensors. Multimodal checkpoints keep it below another
// root, models saved without a head below none, and GGUF files have names of their own.
TensorNames names_in(const WeightSource& source, TensorNames names);

}  // namespace tandem
