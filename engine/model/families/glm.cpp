// GLM and GLM-4, dense (GLM Team 2024): neighbours of the first half of each head rotate as pairs,
// gate and up are one tensor, and GLM-4-0414 norms the sums of its blocks, too.
#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {

ModelSpec read_glm(CheckpointConfig& config) {
  DecoderShape shape = read_decoder(config, {.partial_rotary = 0.5});
  shape.qkv_bias = config.flag("attention_bias", false);
  shape.rotary.interleaved = true;
  ModelSpec spec = decoder_of(shape);
  fuse_gate_up("mlp.gate_up_proj", spec);
  return spec;
}

ModelSpec read_glm4(CheckpointConfig& config) {
  ModelSpec spec = read_glm(config);
  spec.names.attention_out_norm = "post_self_attn_layernorm";
  spec.names.mlp_out_norm = "post_mlp_layernorm";
  for (LayerSpec& layer : spec.layers) layer.norms = NormPlace::around;
  return spec;
}

}  // namespace tandem
