// The families of models that Tandem computes. Each is a file that makes a ModelSpec of a config,
// and a row in registry.cpp.
#pragma once

#include <span>
#include <string_view>

#include "engine/model/families/checkpoint_config.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

struct Family {
  std::string_view name;        // 'model_type' in config.json
  std::string_view class_name;  // in its 'architectures'
  std::string_view title;       // in messages
  // What is not a family's own (dtype, special tokens, tied embeddings) is filled in by the
  // registry. Where the config has failed, the result means nothing.
  ModelSpec (*read)(CheckpointConfig& config);
};

std::span<const Family> families();

ModelSpec read_llama(CheckpointConfig& config);
ModelSpec read_mistral(CheckpointConfig& config);
ModelSpec read_qwen2(CheckpointConfig& config);
ModelSpec read_qwen3(CheckpointConfig& config);

}  // namespace tandem
