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

// The modules of attention with grouped queries and of a gated MLP.
ModuleTable decoder_modules() {
  using Model = const ModelSpec&;
  using Layer = const LayerSpec&;
  const AdaptedModule::Columns hidden = [](Model model, Layer) { return model.hidden_size; };
  const AdaptedModule::Columns q = [](Model, Layer layer) { return layer.attention.q_size(); };
  const AdaptedModule::Columns kv = [](Model, Layer layer) { return layer.attention.kv_size(); };
  const AdaptedModule::Columns ffn = [](Model, Layer layer) { return layer.mlp.size; };
  return ModuleTable({{"self_attn.q_proj", Site::qkv, hidden, q},
                      {"self_attn.k_proj", Site::qkv, hidden, kv},
                      {"self_attn.v_proj", Site::qkv, hidden, kv},
                      {"self_attn.o_proj", Site::o, q, hidden, true},
                      {"mlp.gate_proj", Site::gate_up, hidden, ffn},
                      {"mlp.up_proj", Site::gate_up, hidden, ffn},
                      {"mlp.down_proj", Site::down, ffn, hidden, true}});
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
  spec.modules = decoder_modules();
  spec.layers.assign(static_cast<std::size_t>(shape.num_layers), layer);
  return spec;
}

}  // namespace tandem
