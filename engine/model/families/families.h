// The model families that Tandem supports. Each is a file that converts a config to a ModelSpec,
// and a row in registry.cpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/model/families/checkpoint_config.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

struct Family {
  std::string_view name;        // 'model_type' in config.json
  std::string_view class_name;  // in 'architectures' of config.json
  std::string_view title;       // in messages
  // The field that holds the text model's config in that of a multimodal one; empty: none.
  std::string_view text_config;
  // Fills in the fields that differ between families; the registry fills in the others (dtype,
  // special tokens, tied embeddings). If the config has failed, the result is meaningless.
  ModelSpec (*read)(CheckpointConfig& config);
};

ModelSpec read_cohere2(CheckpointConfig& config);
ModelSpec read_gemma2(CheckpointConfig& config);
ModelSpec read_gemma3(CheckpointConfig& config);
ModelSpec read_gemma4(CheckpointConfig& config);
ModelSpec read_glm(CheckpointConfig& config);
ModelSpec read_glm4(CheckpointConfig& config);
ModelSpec read_granite(CheckpointConfig& config);
ModelSpec read_llama(CheckpointConfig& config);
ModelSpec read_ministral3(CheckpointConfig& config);
ModelSpec read_mistral(CheckpointConfig& config);
ModelSpec read_olmo2(CheckpointConfig& config);
ModelSpec read_olmo3(CheckpointConfig& config);
ModelSpec read_phi3(CheckpointConfig& config);
ModelSpec read_qwen2(CheckpointConfig& config);
ModelSpec read_qwen3(CheckpointConfig& config);
ModelSpec read_smollm3(CheckpointConfig& config);

// 'sliding_window' of configs that lack it, in transformers' classes of several families.
inline constexpr std::int64_t kUsualWindow = 4096;

// The windows of Qwen's layers, which the config has to switch on.
void read_qwen_windows(CheckpointConfig& config, ModelSpec& spec);

}  // namespace tandem
