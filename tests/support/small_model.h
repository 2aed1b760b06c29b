// A model that computes in almost no time, for tests that accept any weights.
#pragma once

#include <cstdint>

#include "engine/model/spec/model_spec.h"

namespace tandem::test {

inline ModelSpec small_model(std::int64_t num_layers) {
  DecoderShape shape;
  shape.hidden_size = 64;
  shape.num_layers = num_layers;
  shape.num_heads = 4;
  shape.num_kv_heads = 2;
  shape.head_dim = 16;
  shape.ffn_size = 160;
  shape.vocab_size = 4096;  // fits the demo model's tokenizer
  shape.max_position_embeddings = 512;
  shape.eos_token_ids = {1};
  return decoder_of(shape);
}

}  // namespace tandem::test
