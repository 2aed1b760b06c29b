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

// The same with what Gemma 4's small models have: inputs by layer, and two last layers, of a window
// and of the whole context, that read the keys of the layers 1 and 2.
inline ModelSpec small_model_with_layer_inputs() {
  ModelSpec spec = small_model(5);
  spec.names.mlp_norm = "pre_feedforward_layernorm";
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.norms = NormPlace::around;
    layer.output_scale = true;
    layer.attention.qk_norm = QkNorm::head;
    layer.attention.v_norm = true;
    const bool is_full = i == 2 || i == 4;
    layer.attention.window = is_full ? 0 : 8;
    layer.attention.keys_as_values = is_full;
    if (i < 3) continue;
    layer.attention.keys_of = i - 2;
    layer.mlp.size *= 2;
  }
  add_layer_inputs(24, spec);
  return spec;
}

}  // namespace tandem::test
