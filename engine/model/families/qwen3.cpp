// Qwen3, dense (Yang et al. 2025): Llama with norms of each head of q and k.
#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {

ModelSpec read_qwen3(CheckpointConfig& config) {
  DecoderShape shape = read_decoder(config, {.needs_head_dim = true});
  shape.qkv_bias = shape.o_bias = config.flag("attention_bias", false);
  shape.qk_norm = QkNorm::head;
  ModelSpec spec = decoder_of(shape);
  read_qwen_windows(config, spec);
  return spec;
}

}  // namespace tandem
