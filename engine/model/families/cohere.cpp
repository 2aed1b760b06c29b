// Cohere 2 (Command R7B and Command A, Cohere 2025): attention and feed-forward part side by side
// behind one LayerNorm without a bias, and layers without a window that do not rotate.
#include <vector>

#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {
namespace {

// Fields of Cohere's own configs, which have one value in all checkpoints of the family.
void refuse_other_layers(CheckpointConfig& config) {
  for (const std::string_view name :
       {"use_parallel_block", "use_gated_activation", "use_parallel_embedding"}) {
    if (!config.flag(name, true)) config.fail(invalid("'{}' false is not supported", name));
  }
  if (config.flag("use_qk_norm", false)) config.fail(invalid("'use_qk_norm' is not supported"));
  const auto refuse_other = [&](std::string_view name, std::string_view value) {
    const std::string text = config.text(name);
    if (text.empty() || text == value) return;
    config.fail(invalid("'{}' is '{}'; only {} is supported", name, text, value));
  };
  refuse_other("position_embedding_type", "rope_gptj");
  refuse_other("order_of_interleaved_layers", "local_attn_first");
  if (config.maybe_number("rotary_pct", 0, 1).value_or(1) != 1) {
    config.fail(invalid("'rotary_pct' below 1 is not supported"));
  }
}

}  // namespace

ModelSpec read_cohere2(CheckpointConfig& config) {
  constexpr double kLeast = 1e-6, kMost = 1e6;
  refuse_other_layers(config);
  DecoderFields fields{.needs_kv_heads = false};
  fields.defaults.rms_norm_eps = 1e-5;
  DecoderShape shape = read_decoder(config, fields);
  if (shape.head_dim * shape.num_heads != shape.hidden_size) {
    config.fail(invalid("'head_dim' {} times {} heads is not 'hidden_size'", shape.head_dim,
                        shape.num_heads));
  }
  shape.rms_norm_eps = config.maybe_number("layer_norm_eps", 0, 0.1).value_or(1e-5);
  shape.qkv_bias = shape.o_bias = config.flag("attention_bias", false);
  shape.rotary.interleaved = true;
  ModelSpec spec = decoder_of(shape);
  spec.norm_centred = true;
  spec.tie_word_embeddings = config.flag("use_embedding_sharing", true);
  spec.logits_multiplier = config.maybe_number("logit_scale", kLeast, kMost).value_or(0.0625);
  const std::int64_t pattern = config.maybe_integer("sliding_window_pattern", 1, 4096).value_or(4);
  const std::vector<bool> windowed = read_windows(
      config, [&](std::int64_t layer) { return (layer + 1) % pattern != 0; }, spec, kUsualWindow);
  if (config.has("sliding_window") && config.find("sliding_window") == nullptr) {
    config.fail(invalid("'sliding_window' is missing"));
  }
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    spec.layers[i].parallel = true;
    if (!windowed[i]) spec.layers[i].attention.rotary = AttentionSpec::kNoRotary;
  }
  return spec;
}

}  // namespace tandem
