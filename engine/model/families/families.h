// The model families that Tandem supports. Each is a file that converts a config to a ModelSpec,
// and a row in registry.cpp.
#pragma once

#include <string_view>

#include "engine/model/families/checkpoint_config.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

struct Family {
  std::string_view name;        // 'model_type' in config.json
  std::string_view class_name;  // in 'architectures' of config.json
  std::string_view title;       // in messages
  // Fills in the fields that differ between families; the registry fills in the others (dtype,
  // special tokens, tied embeddings). If the config has failed, the result is meaningless.
  ModelSpec (*read)(CheckpointConfig& config);
};

ModelSpec read_llama(CheckpointConfig& config);
ModelSpec read_mistral(CheckpointConfig& config);
ModelSpec read_qwen2(CheckpointConfig& config);
ModelSpec read_qwen3(CheckpointConfig& config);

}  // namespace tandem
