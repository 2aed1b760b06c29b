// Qwen2 and Qwen2.5 (Yang et al. 2024): Llama with biases on q, k and v; late layers may have a
// window.
#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {

void read_qwen_windows(CheckpointConfig& config, ModelSpec& spec) {
  const bool used = config.flag("use_sliding_window", false);
  const std::int64_t full = config.maybe_integer("max_window_layers", 0, INT64_MAX).value_or(28);
  read_windows(
      config, [&](std::int64_t layer) { return used && layer >= full; }, spec, kUsualWindow);
}

ModelSpec read_qwen2(CheckpointConfig& config) {
  DecoderShape shape = read_decoder(config, {});
  shape.qkv_bias = true;
  ModelSpec spec = decoder_of(shape);
  read_qwen_windows(config, spec);
  return spec;
}

}  // namespace tandem
