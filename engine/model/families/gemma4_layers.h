// The fields in which the layers of Gemma 4 differ.
#pragma once

#include <vector>

#include "engine/model/families/checkpoint_config.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// `windowed`: which layers are of the kind with a window, [layers].

// Gives full layers their heads, as the hub's configs say ('global_head_dim'), or layer by layer,
// as transformers 5 writes them.
void read_gemma4_heads(CheckpointConfig& config, const std::vector<bool>& windowed,
                       ModelSpec& spec);

// Lets the last layers read the keys of the last layer of their kind before them, with feed-forward
// parts that may be twice as wide.
void read_gemma4_shared_keys(CheckpointConfig& config, const std::vector<bool>& windowed,
                             ModelSpec& spec);

void read_gemma4_layer_inputs(CheckpointConfig& config, ModelSpec& spec);

}  // namespace tandem
