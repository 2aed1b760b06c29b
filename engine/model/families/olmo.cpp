// OLMo 2 (OLMo Team 2024) and OLMo 3 (2025): blocks take the residual as it is and their sums are
// normed; queries and keys are normed over all heads together. Most layers of OLMo 3 have a window,
// and their rotary embedding is not scaled.
#include <vector>

#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {
namespace {

ModelSpec read_olmo(CheckpointConfig& config, DecoderShape shape) {
  shape.qkv_bias = shape.o_bias = config.flag("attention_bias", false);
  shape.qk_norm = QkNorm::all_heads;
  ModelSpec spec = decoder_of(shape);
  for (LayerSpec& layer : spec.layers) layer.norms = NormPlace::behind;
  return spec;
}

}  // namespace

ModelSpec read_olmo2(CheckpointConfig& config) {
  return read_olmo(config, read_decoder(config, {.needs_kv_heads = false}));
}

ModelSpec read_olmo3(CheckpointConfig& config) {
  const DecoderShape shape = read_decoder(config, {.needs_kv_heads = false});
  ModelSpec spec = read_olmo(config, shape);
  const std::vector<bool> windowed = read_windows(
      config, [](std::int64_t layer) { return (layer + 1) % 4 != 0; }, spec, kUsualWindow);
  read_local_rotary(config, rotary_fields_of(shape), windowed, spec);
  return spec;
}

}  // namespace tandem
