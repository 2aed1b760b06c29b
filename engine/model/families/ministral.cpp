// Ministral 3 (Mistral AI 2025): Llama with YaRN, and queries that grow with their position.
#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {

ModelSpec read_ministral3(CheckpointConfig& config) {
  ModelSpec spec = decoder_of(read_decoder(config, {}));
  const Json* rope = config.find("rope_parameters");
  if (rope == nullptr) rope = config.find("rope_scaling");
  if (rope == nullptr || !rope->is_object()) {
    config.fail(invalid("'rope_parameters' is missing"));
    return spec;
  }
  constexpr double kMost = 1e6;
  CheckpointConfig fields(*rope);
  QueryScale scale;
  scale.beta = fields.number("llama_4_scaling_beta", -kMost, kMost);
  scale.original = fields.number("original_max_position_embeddings", 0, 1 << 28);
  if (!fields.status().ok()) config.fail(fields.status().with_context("rope_parameters"));
  for (LayerSpec& layer : spec.layers) layer.attention.query_scale = scale;
  read_windows(
      config, [](std::int64_t) { return true; }, spec);
  return spec;
}

}  // namespace tandem
