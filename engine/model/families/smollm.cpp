// SmolLM3 (Bakouch et al. 2025): Llama with some layers that do not rotate queries and keys.
#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {

ModelSpec read_smollm3(CheckpointConfig& config) {
  DecoderFields fields;
  fields.defaults.rotary.theta = 2e6;
  DecoderShape shape = read_decoder(config, fields);
  shape.qkv_bias = shape.o_bias = config.flag("attention_bias", false);
  ModelSpec spec = decoder_of(shape);
  spec.tie_word_embeddings = true;
  const std::int64_t interval = config.maybe_integer("no_rope_layer_interval", 1, 4096).value_or(4);
  const Json* const rotates = config.find("no_rope_layers");  // 1: the layer does rotate
  if (rotates != nullptr && (!rotates->is_array() || rotates->size() != spec.layers.size())) {
    config.fail(invalid("'no_rope_layers' must be a list of {}", spec.layers.size()));
    return spec;
  }
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    bool rotated = (static_cast<std::int64_t>(i) + 1) % interval != 0;
    if (rotates != nullptr) {
      const Json& entry = (*rotates)[i];
      rotated = entry == 1;
      if (!rotated && entry != 0) {
        config.fail(invalid("'no_rope_layers' holds {}; it may hold 0 and 1", entry.dump()));
      }
    }
    if (!rotated) spec.layers[i].attention.rotary = AttentionSpec::kNoRotary;
  }
  const bool windows = config.flag("use_sliding_window", false);
  read_windows(
      config,
      [&](std::int64_t layer) {
        return windows && spec.layer(layer).attention.rotary == AttentionSpec::kNoRotary;
      },
      spec);
  return spec;
}

}  // namespace tandem
