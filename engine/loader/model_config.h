// config.json of the Llama family: Llama, Mistral, Qwen2, Qwen3, in the spelling of transformers 4
// and of transformers 5.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace tandem {

enum class Architecture { llama, mistral, qwen2, qwen3 };
std::string_view to_string(Architecture architecture);

// Rotary frequencies; scaling is that of Llama 3 (rope_type "llama3") when set.
struct RopeConfig {
  struct Llama3Scaling {
    double factor = 8;
    double low_freq_factor = 1;
    double high_freq_factor = 4;
    double original_max_position_embeddings = 8192;
  };
  double theta = 10000;
  std::optional<Llama3Scaling> llama3;
};

struct ModelConfig {
  Architecture architecture = Architecture::llama;
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;  // Qwen2, or Llama's attention_bias
  bool o_bias = false;    // Llama's attention_bias
  bool qk_norm = false;   // Qwen3: RMSNorm per head on q and k, before RoPE
  RopeConfig rope;
  DType dtype = DType::bf16;  // of the checkpoint
  std::vector<std::int32_t> eos_token_ids;
  std::optional<std::int32_t> bos_token_id;

  std::int64_t q_size() const { return num_heads * head_dim; }
  std::int64_t kv_size() const { return num_kv_heads * head_dim; }
};

// Reads DIR/config.json, and generation_config.json's end tokens when it is there. Every field is
// checked for presence, type and a sane range; the message names the file and the field. What the
// engine would compute wrongly (other activations, other rope types, quantised weights, MoE) is
// refused by name. Sliding windows shorter than the context cut the context to their length, up to
// which they change nothing.
Result<ModelConfig> load_model_config(const std::filesystem::path& dir);
Result<ModelConfig> parse_model_config(std::string_view config_json);

}  // namespace tandem
