#include "engine/model/weights/source_names.h"

#include <string>
#include <string_view>

#include "engine/model/spec/text_model_places.h"

namespace tandem {
namespace {

constexpr std::string_view kGgufEmbedding = "token_embd.weight";

// Projections that are fused in a Hugging Face checkpoint are fused in the GGUF file, too.
TensorNames gguf_names(const TensorNames& names) {
  const bool fused_qkv = names.q == names.k;
  const bool fused_gate_up = names.gate == names.up;
  TensorNames gguf;
  gguf.root = "";
  gguf.embedding = kGgufEmbedding;
  gguf.layer = "blk.{}.";
  gguf.final_norm = "output_norm.weight";
  gguf.head = "output.weight";
  gguf.attention_norm = "attn_norm";
  gguf.q = fused_qkv ? "attn_qkv" : "attn_q";
  gguf.k = fused_qkv ? "attn_qkv" : "attn_k";
  gguf.v = fused_qkv ? "attn_qkv" : "attn_v";
  gguf.q_norm = "attn_q_norm";
  gguf.k_norm = "attn_k_norm";
  gguf.o = "attn_output";
  gguf.attention_out_norm = "post_attention_norm";
  gguf.mlp_norm = "ffn_norm";
  gguf.mlp_out_norm = "post_ffw_norm";
  gguf.gate = fused_gate_up ? "ffn_up" : "ffn_gate";
  gguf.up = "ffn_up";
  gguf.down = "ffn_down";
  return gguf;
}

}  // namespace

TensorNames names_in(const WeightSource& source, TensorNames names) {
  const auto has_below = [&](std::string_view root) {
    return source.has(std::string(root) + std::string(names.embedding));
  };
  if (has_below(names.root)) return names;
  for (const TextModelPlace& place : kTextModelPlaces) {
    if (!has_below(place.root)) continue;
    names.root = place.root;
    names.head = place.head;
    return names;
  }
  if (source.has(kGgufEmbedding)) return gguf_names(names);
  if (has_below("")) names.root = "";
  return names;
}

}  // namespace tandem
