// Gemma 4 (Gemma Team 2026), text, dense: as Gemma 3, but norms multiply by their weight, scores
// are not scaled, values are normed, and full layers have larger heads, whose values may be their
// keys. The small ones have inputs by layer, and last layers that read keys of earlier ones.
#include <cmath>
#include <string>
#include <vector>

#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"
#include "engine/model/families/gemma4_layers.h"

namespace tandem {
namespace {

void refuse_other_kinds(CheckpointConfig& config) {
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
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.norms = NormPlace::around;
    layer.output_scale = true;
    layer.attention.scale = 1;
    layer.attention.v_norm = true;
    layer.attention.keys_as_values = keys_as_values && !windowed[i];
  }
  read_gemma4_heads(config, windowed, spec);
  read_gemma4_shared_keys(config, windowed, spec);
  read_gemma4_layer_inputs(config, spec);
  RotaryFields full = rotary_fields_of(shape);
  full.head_dim = spec.layers.back().attention.head_dim;
  full.proportional = true;
  spec.rotary = {read_rotary(config, full)};
  read_local_rotary(config, rotary_fields_of(shape), windowed, spec);
  return spec;
}

}  // namespace tandem
