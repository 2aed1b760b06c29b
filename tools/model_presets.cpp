#include "tools/model_presets.h"

#include <nlohmann/json.hpp>

namespace tandem {
namespace {

struct Preset {
  const char* name;
  std::int64_t hidden, layers, heads, kv_heads, head_dim, ffn, vocab, positions;
  double theta;
  bool llama3_rope, tied;
  double rope_factor;
};

// As their config.json files say.
constexpr Preset kPresets[] = {
    {"llama-3.2-1b", 2048, 16, 32, 8, 64, 8192, 128256, 131072, 500000, true, true, 32},
    {"llama-2-7b", 4096, 32, 32, 32, 128, 11008, 32000, 4096, 10000, false, false, 0},
    {"llama-3-8b", 4096, 32, 32, 8, 128, 14336, 128256, 8192, 500000, false, false, 0},
};

// A code point below 0x800 in UTF-8.
std::string utf8(unsigned code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xc0U | (code_point >> 6)),
          static_cast<char>(0x80U | (code_point & 0x3fU))};
}

}  // namespace

std::vector<std::string> model_preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

std::optional<ModelConfig> model_preset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
    ModelConfig config;
    config.hidden_size = preset.hidden;
    config.num_layers = preset.layers;
    config.num_heads = preset.heads;
    config.num_kv_heads = preset.kv_heads;
    config.head_dim = preset.head_dim;
    config.ffn_size = preset.ffn;
    config.vocab_size = preset.vocab;
    config.max_position_embeddings = preset.positions;
    config.tie_word_embeddings = preset.tied;
    config.rope.theta = preset.theta;
    if (preset.llama3_rope) {
      RopeConfig::Llama3Scaling scaling;
      scaling.factor = preset.rope_factor;
      config.rope.llama3 = scaling;
    }
    return config;
  }
  return std::nullopt;
}

std::string byte_tokenizer_json() {
  // Byte-level vocabularies write each byte as one printable character: itself where it is
  // printable, else one of the code points from 256 on, in order.
  nlohmann::json vocab = nlohmann::json::object();
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
                           (byte >= 0xae && byte <= 0xff);
    vocab[utf8(printable ? byte : next++)] = byte;
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

}  // namespace tandem
