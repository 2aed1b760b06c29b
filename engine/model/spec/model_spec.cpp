#include "engine/model/spec/model_spec.h"

namespace tandem {
namespace {

Status check_layer(const ModelSpec& spec, const LayerSpec& layer) {
  const AttentionSpec& attention = layer.attention;
  const auto refuse = [](bool asked, std::string_view what) -> Status {
    if (asked) return invalid("Tandem does not compute {} yet", what);
    return {};
  };
  TANDEM_TRY(refuse(!(layer == spec.layers.front()), "layers that differ from each other"));
  TANDEM_TRY(refuse(attention.rotary >= spec.rotary.size(), "attention without rotary embedding"));
  TANDEM_TRY(refuse(attention.rotated != 0 && attention.rotated != attention.head_dim,
                    "rotary embedding of a part of each head"));
  TANDEM_TRY(refuse(attention.window != 0, "attention within a sliding window"));
  TANDEM_TRY(refuse(attention.softcap != 0, "soft-capped attention"));
  TANDEM_TRY(refuse(attention.sinks, "attention sinks"));
  TANDEM_TRY(refuse(layer.mlp.activation != Activation::silu, "activations other than SiLU"));
  TANDEM_TRY(refuse(layer.norms != NormPlace::before, "norms behind a block"));
  return refuse(layer.residual_multiplier != 1, "multipliers of the residual");
}

}  // namespace

Status check_computable(const ModelSpec& spec) {
  if (spec.layers.empty()) return invalid("the model has no layers");
  for (const LayerSpec& layer : spec.layers) TANDEM_TRY(check_layer(spec, layer));
  if (spec.norm_adds_one) return invalid("Tandem does not compute norms by 1 + weight yet");
  if (spec.embedding_multiplier != 1 || spec.logits_multiplier != 1) {
    return invalid("Tandem does not compute multipliers of embedding and logits yet");
  }
  return {};
}

ModelSpec decoder_of(const DecoderShape& shape) {
  ModelSpec spec;
  spec.family = shape.family;
  spec.hidden_size = shape.hidden_size;
  spec.vocab_size = shape.vocab_size;
  spec.max_position_embeddings = shape.max_position_embeddings;
  spec.rms_norm_eps = shape.rms_norm_eps;
  spec.tie_word_embeddings = shape.tie_word_embeddings;
  spec.rotary = {shape.rotary};
  spec.eos_token_ids = shape.eos_token_ids;
  LayerSpec layer;
  layer.attention.heads = shape.num_heads;
  layer.attention.kv_heads = shape.num_kv_heads;
  layer.attention.head_dim = shape.head_dim;
  layer.attention.qkv_bias = shape.qkv_bias;
  layer.attention.o_bias = shape.o_bias;
  layer.attention.qk_norm = shape.qk_norm;
  layer.mlp.size = shape.ffn_size;
  spec.layers.assign(static_cast<std::size_t>(shape.num_layers), layer);
  return spec;
}

}  // namespace tandem
