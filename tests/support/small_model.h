// A model that computes in no time, for tests that need one of any weights.
#pragma once

#include <cstdint>

#include "engine/loader/model_config.h"

namespace tandem::test {

inline ModelConfig small_model(std::int64_t num_layers) {
  ModelConfig config;
  config.architecture = Architecture::llama;
  config.hidden_size = 64;
  config.num_layers = num_layers;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.ffn_size = 160;
  config.vocab_size = 4096;  // the demo model's tokenizer suits it
  config.max_position_embeddings = 512;
  config.eos_token_ids = {1};
  return config;
}

}  // namespace tandem::test
