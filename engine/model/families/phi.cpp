// Phi-3 and Phi-4 (Abdin et al. 2024): Llama with q, k and v in one tensor, gate and up in another,
// and a rotary embedding that may leave out a part of each head.
#include "engine/model/families/decoder.h"
#include "engine/model/families/families.h"

namespace tandem {

ModelSpec read_phi3(CheckpointConfig& config) {
  ModelSpec spec = decoder_of(read_decoder(config, {.needs_kv_heads = false, .partial_rotary = 1}));
  fuse_qkv("self_attn.qkv_proj", spec);
  fuse_gate_up("mlp.gate_up_proj", spec);
  read_windows(
      config, [](std::int64_t) { return true; }, spec);
  return spec;
}

}  // namespace tandem
