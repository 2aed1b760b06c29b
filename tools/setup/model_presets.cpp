#include "tools/setup/model_presets.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text/utf8.h"
#include "engine/tokenizer/byte_level.h"

namespace tandem {
namespace {

struct Preset {
  const char* name;
  std::int64_t hidden, layers, heads, kv_heads, head_dim, ffn, vocab, positions;
  double theta;
  bool llama3_rope, tied;
  double rope_factor;
};

// Values from the models' config.json files.
constexpr Preset kPresets[] = {
    {"llama-3.2-1b", 2048, 16, 32, 8, 64, 8192, 128256, 131072, 500000, true, true, 32},
    {"llama-2-7b", 4096, 32, 32, 32, 128, 11008, 32000, 4096, 10000, false, false, 0},
    {"llama-2-70b", 8192, 80, 64, 8, 128, 28672, 32000, 4096, 10000, false, false, 0},
    {"llama-3-8b", 4096, 32, 32, 8, 128, 14336, 128256, 8192, 500000, false, false, 0},
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
    DecoderShape shape;
    shape.hidden_size = preset.hidden;
    shape.num_layers = preset.layers;
    shape.num_heads = preset.heads;
    shape.num_kv_heads = preset.kv_heads;
    shape.head_dim = preset.head_dim;
    shape.ffn_size = preset.ffn;
    shape.vocab_size = preset.vocab;
    shape.max_position_embeddings = preset.positions;
    shape.tie_word_embeddings = preset.tied;
    shape.rotary.theta = preset.theta;
    if (preset.llama3_rope) {
      RotarySpec::Llama3Scaling scaling;
      scaling.factor = preset.rope_factor;
      shape.rotary.llama3 = scaling;
    }
    return decoder_of(shape);
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
