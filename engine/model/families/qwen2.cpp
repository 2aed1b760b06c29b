// Qwen2 and Qwen2.5 (Yang et al. 2024): Llama with biases on q, k and v.
#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {

ModelSpec read_qwen2(CheckpointConfig& config) {
  DecoderShape shape = read_decoder(config, {.window = WindowField::when_asked});
  shape.qkv_bias = true;
  return decoder_of(shape);
}

}  // namespace tandem
