// Configs for tests of families, and the message that reading one gives.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "engine/model/families/registry.h"

namespace tandem::test {

using Json = nlohmann::json;

inline Json llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 96},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 2},
          {"intermediate_size", 200},
          {"vocab_size", 1000},
          {"max_position_embeddings", 2048},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"eos_token_id", 2},
          {"bos_token_id", 1},
          {"torch_dtype", "bfloat16"}};
}

// The error of reading the config, or "accepted".
inline std::string message(const Json& json) {
  const Result<ModelSpec> config = parse_model_spec(json.dump());
  return config ? "accepted" : config.status().message();
}

inline std::string message_with(const std::string& field, const Json& value) {
  Json json = llama();
  json[field] = value;
  return message(json);
}

// The config of a checkpoint in tests/data/families.
inline Json config_of(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream("data/families/" + name + "/config.json").rdbuf();
  return Json::parse(text.str());
}

inline std::string message_of(Json json, const std::string& field, const Json& value) {
  json[field] = value;
  return message(json);
}

}  // namespace tandem::test
