#include "tools/setup/model_presets.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/text/utf8.h"
#include "engine/model/families/registry.h"
#include "engine/tokenizer/byte_level.h"

namespace tandem {
namespace {

struct Preset {
  std::string_view name;
  std::string_view config;  // as in the model's config.json
};

constexpr Preset kPresets[] = {
    {"llama-3.2-1b", R"({"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
      "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
      "intermediate_size": 8192, "vocab_size": 128256, "max_position_embeddings": 131072,
      "rms_norm_eps": 1e-5, "rope_theta": 500000, "tie_word_embeddings": true,
      "rope_scaling": {"rope_type": "llama3", "factor": 32, "low_freq_factor": 1,
                       "high_freq_factor": 4, "original_max_position_embeddings": 8192},
      "torch_dtype": "bfloat16"})"},
    {"llama-2-7b", R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008,
      "vocab_size": 32000, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
      "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"llama-2-70b", R"({"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80,
      "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672,
      "vocab_size": 32000, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
      "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"llama-3-8b", R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
      "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
      "rope_theta": 500000, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"mistral-7b-v0.1", R"({"model_type": "mistral", "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
      "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 32768,
      "rms_norm_eps": 1e-5, "rope_theta": 10000, "sliding_window": 4096,
      "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"gemma-2-9b", R"({"model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42,
      "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
      "intermediate_size": 14336, "vocab_size": 256000, "max_position_embeddings": 8192,
      "rms_norm_eps": 1e-6, "rope_theta": 10000, "sliding_window": 4096,
      "query_pre_attn_scalar": 256, "attn_logit_softcapping": 50, "final_logit_softcapping": 30,
      "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
      "torch_dtype": "bfloat16"})"},
};

}  // namespace

std::vector<std::string> model_preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

std::optional<ModelSpec> model_preset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
    Result<ModelSpec> spec = parse_model_spec(preset.config);
    TANDEM_CHECK(spec.ok(), "{}: {}", preset.name, spec.status().message());
    return *std::move(spec);
  }
  return std::nullopt;
}

std::string byte_tokenizer_json() {
  nlohmann::json vocab = nlohmann::json::object();
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string token;
    utf8::append(token, byte_level_characters()[byte]);
    vocab[token] = byte;
  }
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", true},
                                     {"use_regex", true}};
  return nlohmann::json{{"version", "1.0"},
                        {"truncation", nullptr},
                        {"padding", nullptr},
                        {"added_tokens", nlohmann::json::array()},
                        {"normalizer", nullptr},
                        {"pre_tokenizer", byte_level},
                        {"post_processor", nullptr},
                        {"decoder", byte_level},
                        {"model",
                         {{"type", "BPE"},
                          {"dropout", nullptr},
                          {"unk_token", nullptr},
                          {"continuing_subword_prefix", nullptr},
                          {"end_of_word_suffix", nullptr},
                          {"fuse_unk", false},
                          {"byte_fallback", false},
                          {"vocab", vocab},
                          {"merges", nlohmann::json::array()}}}}
      .dump();
}

std::string name_of_model(const std::string& model) {
  std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "dir/"
  if (path.extension() == ".gguf") path.replace_extension();
  std::string name = path.filename().string();
  return name.empty() || name == "." || name == ".." ? "model" : name;
}

}  // namespace tandem
