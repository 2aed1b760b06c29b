// Gemma 2 (Gemma Team 2024) and Gemma 3 (Gemma Team 2025), text: norms by 1 + weight before and
// behind each block, GELU, an embedding multiplied by sqrt(hidden size), and layers with a window
// between layers without one. Gemma 2 caps scores and logits; Gemma 3 norms queries and keys, and
// its layers with a window rotate by another table.
#include <cmath>
#include <vector>

#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {
namespace {

DecoderShape defaults() {
  DecoderShape shape = DecoderFields::no_defaults();
  shape.rms_norm_eps = 1e-6;
  shape.activation = Activation::gelu_tanh;
  shape.head_dim = 256;
  return shape;
}

// The caps of configs that lack them; 0: none.
struct Caps {
  double scores = 0;
  double logits = 0;
};

ModelSpec read_gemma(CheckpointConfig& config, DecoderShape shape, QkNorm qk_norm, Caps absent) {
  constexpr double kLeast = 1e-3, kMost = 1e6;
  const auto read_cap = [&](std::string_view name, double fallback) {
    return config.maybe_number(name, kLeast, kMost).value_or(config.has(name) ? 0 : fallback);
  };
  shape.qkv_bias = shape.o_bias = config.flag("attention_bias", false);
  shape.qk_norm = qk_norm;
  ModelSpec spec = decoder_of(shape);
  spec.norm_adds_one = true;
  spec.tie_word_embeddings = true;
  spec.embedding_multiplier = std::sqrt(static_cast<double>(shape.hidden_size));
  spec.logits_softcap = read_cap("final_logit_softcapping", absent.logits);
  spec.names.mlp_norm = "pre_feedforward_layernorm";
  const double scalar = config.maybe_number("query_pre_attn_scalar", kLeast, kMost).value_or(256);
  const double softcap = read_cap("attn_logit_softcapping", absent.scores);
  for (LayerSpec& layer : spec.layers) {
    layer.norms = NormPlace::around;
    layer.attention.scale = 1 / std::sqrt(scalar);
    layer.attention.softcap = softcap;
  }
  if (config.flag("use_bidirectional_attention", false)) {
    config.fail(invalid("'use_bidirectional_attention' is not supported"));
  }
  return spec;
}

}  // namespace

ModelSpec read_gemma2(CheckpointConfig& config) {
  const DecoderShape shape = read_decoder(config, {.defaults = defaults()});
  ModelSpec spec = read_gemma(config, shape, QkNorm::none, {.scores = 50, .logits = 30});
  read_windows(
      config, [](std::int64_t layer) { return layer % 2 == 0; }, spec, kUsualWindow);
  return spec;
}

ModelSpec read_gemma3(CheckpointConfig& config) {
  // The configs of multimodal checkpoints leave out all that is as in the smallest of them.
  DecoderShape fallback = defaults();
  fallback.num_heads = 8;
  fallback.num_kv_heads = 4;
  fallback.num_layers = 26;
  fallback.hidden_size = 2304;
  fallback.ffn_size = 9216;
  fallback.vocab_size = 262208;
  fallback.max_position_embeddings = 131072;
  fallback.rotary.theta = 1e6;
  const DecoderShape shape = read_decoder(config, {.defaults = fallback});
  ModelSpec spec = read_gemma(config, shape, QkNorm::head, {});
  const std::int64_t pattern = config.maybe_integer("sliding_window_pattern", 1, 4096).value_or(6);
  const std::vector<bool> windowed = read_windows(
      config, [&](std::int64_t layer) { return (layer + 1) % pattern != 0; }, spec, kUsualWindow);
  RotaryFields local = rotary_fields_of(shape);
  local.theta_name = "rope_local_base_freq";
  read_local_rotary(config, local, windowed, spec);
  return spec;
}

}  // namespace tandem
