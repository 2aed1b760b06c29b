// Llama 1 to 3 (Touvron et al. 2023; Grattafiori et al. 2024): attention and SwiGLU behind
// RMSNorms.
#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {

ModelSpec read_llama(CheckpointConfig& config) {
  DecoderShape shape = read_decoder(config, {.needs_kv_heads = false});
  shape.qkv_bias = shape.o_bias = config.flag("attention_bias", false);
  return decoder_of(shape);
}

}  // namespace tandem
