// Gemma 4 (Gemma Team 2026), text, dense: as Gemma 3, but norms multiply by their weight, scores
// are not scaled, values are normed, and full layers have larger heads, whose values may be their
// keys.
#include <cmath>
#include <string>
#include <vector>

#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {
namespace {

void refuse_other_kinds(CheckpointConfig& config) {
  if (config.maybe_integer("hidden_size_per_layer_input", 0, 1 << 20).value_or(256) != 0) {
    config.fail(invalid("inputs by layer ('hidden_size_per_layer_input') are not supported"));
  }
  if (config.maybe_integer("num_kv_shared_layers", 0, 4096).value_or(0) != 0) {
    config.fail(invalid("shared keys and values ('num_kv_shared_layers') are not supported"));
  }
  if (config.flag("enable_moe_block", false)) {
    config.fail(invalid("mixtures of experts ('enable_moe_block') are not supported"));
  }
  const std::string both_ways = config.text("use_bidirectional_attention");
  if (!both_ways.empty() && both_ways != "vision") {
    config.fail(invalid("'use_bidirectional_attention' {} is not supported", both_ways));
  }
  const Json* const rope = config.find("rope_parameters");
  for (const char* const kind : {"full_attention", "sliding_attention"}) {
    if (rope != nullptr && rope->is_object() && rope->contains(kind)) continue;
    config.fail(invalid("'rope_parameters' says nothing of {}", kind));
  }
}

// The heads of full layers, as the hub's configs say ('global_head_dim'), or layer by layer, as
// transformers 5 writes them.
void read_heads(CheckpointConfig& config, std::size_t layer, AttentionSpec& attention) {
  const Json* const by_layer = config.find("per_layer_config");
  if (by_layer == nullptr) {
    attention.head_dim = config.maybe_integer("global_head_dim", 2, 4096).value_or(512);
    const auto kv_heads = config.maybe_integer("num_global_key_value_heads", 1, 65536);
    if (kv_heads && attention.keys_as_values) attention.kv_heads = *kv_heads;
  } else {
    const Json* const own =
        by_layer->is_object() ? JsonFields<Json>(*by_layer).find(std::to_string(layer)) : nullptr;
    if (own == nullptr || !own->is_object()) {
      return config.fail(invalid("'per_layer_config' says nothing of layer {}", layer));
    }
    CheckpointConfig fields(*own);
    attention.head_dim = fields.integer("head_dim", 2, 4096);
    const auto kv_heads = fields.maybe_integer("num_key_value_heads", 1, 65536);
    attention.kv_heads = kv_heads.value_or(attention.kv_heads);
    config.fail(fields.status());
  }
  if (attention.heads % attention.kv_heads != 0 || attention.head_dim % 2 != 0) {
    config.fail(invalid("layer {} has {} heads of {}, and {} of keys", layer, attention.heads,
                        attention.head_dim, attention.kv_heads));
  }
}

}  // namespace

ModelSpec read_gemma4(CheckpointConfig& config) {
  refuse_other_kinds(config);
  DecoderFields fields{.proportional_rotary = true};
  fields.defaults.rms_norm_eps = 1e-6;
  fields.defaults.activation = Activation::gelu_tanh;
  fields.defaults.head_dim = 256;
  DecoderShape shape = read_decoder(config, fields);
  shape.qkv_bias = shape.o_bias = config.flag("attention_bias", false);
  shape.qk_norm = QkNorm::head;
  ModelSpec spec = decoder_of(shape);
  spec.tie_word_embeddings = true;
  spec.embedding_multiplier = std::sqrt(static_cast<double>(shape.hidden_size));
  spec.logits_softcap = config.maybe_number("final_logit_softcapping", 1e-3, 1e6).value_or(0);
  spec.names.mlp_norm = "pre_feedforward_layernorm";
  const std::vector<bool> windowed = read_windows(
      config, [](std::int64_t layer) { return (layer + 1) % 6 != 0; }, spec, 512);
  if (!config.status().ok()) return spec;
  if (windowed.back()) config.fail(invalid("the last layer has a window; Gemma 4's has none"));
  const bool keys_as_values = config.flag("attention_k_eq_v", false);
  RotaryFields full = rotary_fields_of(shape);
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.norms = NormPlace::around;
    layer.output_scale = true;
    layer.attention.scale = 1;
    layer.attention.v_norm = true;
    if (windowed[i]) continue;
    layer.attention.keys_as_values = keys_as_values;
    read_heads(config, i, layer.attention);
    full.head_dim = layer.attention.head_dim;
  }
  full.proportional = true;
  spec.rotary = {read_rotary(config, full)};
  read_local_rotary(config, rotary_fields_of(shape), windowed, spec);
  return spec;
}

}  // namespace tandem
