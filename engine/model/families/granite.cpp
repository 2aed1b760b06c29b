// Granite 3, dense (Granite Team 2024): Llama with multipliers of embedding, scores, blocks and
// logits.
#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {

ModelSpec read_granite(CheckpointConfig& config) {
  constexpr double kLeast = 1e-6, kMost = 1e6;
  DecoderShape shape = read_decoder(config, {.needs_kv_heads = false});
  shape.qkv_bias = shape.o_bias = config.flag("attention_bias", false);
  ModelSpec spec = decoder_of(shape);
  spec.embedding_multiplier =
      config.maybe_number("embedding_multiplier", kLeast, kMost).value_or(1);
  spec.logits_multiplier = 1 / config.maybe_number("logits_scaling", kLeast, kMost).value_or(1);
  const double residual = config.maybe_number("residual_multiplier", kLeast, kMost).value_or(1);
  const double scores = config.maybe_number("attention_multiplier", kLeast, kMost).value_or(1);
  for (LayerSpec& layer : spec.layers) {
    layer.residual_multiplier = residual;
    layer.attention.scale = scores;
  }
  return spec;
}

}  // namespace tandem
