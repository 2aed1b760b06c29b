// Writes a checkpoint as llama.cpp's converter would: metadata, tensors under its names, pairs of
// queries and keys as neighbours, norms with their 1 added.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/loader/weights.h"
#include "engine/model/weights/weight_layout.h"
#include "tests/support/gguf_writer.h"

namespace tandem::testing {

// A config.json as transformers 4 writes it, as metadata.
inline void add_gguf_metadata(const nlohmann::json& config, const ModelSpec& spec,
                              GgufWriter& writer) {
  static const std::map<std::string, std::string> kArchitectures = {{"gemma3_text", "gemma3"},
                                                                    {"olmo3", "olmo2"},
                                                                    {"mistral", "llama"},
                                                                    {"ministral3", "mistral3"}};
  const std::string type = config.at("model_type");
  const auto other = kArchitectures.find(type);
  const std::string arch = other == kArchitectures.end() ? type : other->second;
  writer.add("general.architecture", arch);
  const auto number = [](const nlohmann::json& value) { return value.get<std::uint32_t>(); };
  const auto add = [&](const std::string& key, auto value) { writer.add(arch + "." + key, value); };
  const auto copy_integer = [&](const char* field, const char* key) {
    if (config.contains(field) && !config.at(field).is_null()) add(key, number(config.at(field)));
  };
  const auto copy_number = [&](const char* field, const char* key) {
    if (config.contains(field) && !config.at(field).is_null()) {
      add(key, config.at(field).get<float>());
    }
  };
  copy_integer("hidden_size", "embedding_length");
  copy_integer("num_hidden_layers", "block_count");
  copy_integer("intermediate_size", "feed_forward_length");
  copy_integer("max_position_embeddings", "context_length");
  copy_integer("num_attention_heads", "attention.head_count");
  copy_integer("num_key_value_heads", "attention.head_count_kv");
  copy_integer("head_dim", "attention.key_length");
  copy_integer("head_dim", "attention.value_length");
  copy_number("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  copy_number("layer_norm_eps", "attention.layer_norm_epsilon");
  copy_number("rope_theta", "rope.freq_base");
  copy_number("attn_logit_softcapping", "attn_logit_softcapping");
  copy_number("final_logit_softcapping", "final_logit_softcapping");
  copy_number("attention_multiplier", "attention.scale");
  copy_number("embedding_multiplier", "embedding_scale");
  copy_number("residual_multiplier", "residual_scale");
  copy_number("logits_scaling", "logit_scale");
  copy_number("logit_scale", "logit_scale");
  if (arch != "qwen2" && arch != "qwen3" && arch != "smollm3") {
    copy_integer("sliding_window", "attention.sliding_window");
  }
  copy_integer("sliding_window_pattern", "attention.sliding_window_pattern");
  if (type == "olmo3") {
    std::string flags;
    for (const auto& kind : config.at("layer_types")) flags += kind == "sliding_attention" ? 1 : 0;
    writer.add_raw(arch + ".attention.sliding_window_pattern", GgufWriter::list,
                   GgufWriter::raw<std::uint32_t>(GgufWriter::flag) +
                       GgufWriter::raw<std::uint64_t>(flags.size()) + flags);
  }
  const RotarySpec& rotary = spec.rotary.front();
  const auto rotated = rotary.rotated > 0 ? rotary.rotated : spec.attention().head_dim;
  add("rope.dimension_count", static_cast<std::uint32_t>(rotated));
  const char* const place = config.contains("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (config.contains(place) && config.at(place).is_object()) {
    const nlohmann::json& scaling = config.at(place);
    const auto copy = [&](const char* field, const char* key) {
      if (scaling.contains(field)) add(key, scaling.at(field).get<float>());
    };
    add("rope.scaling.type", scaling.value("rope_type", scaling.value("type", "")));
    copy("rope_theta", "rope.freq_base");
    copy("factor", "rope.scaling.factor");
    copy("attention_factor", "rope.scaling.attn_factor");
    copy("beta_fast", "rope.scaling.yarn_beta_fast");
    copy("beta_slow", "rope.scaling.yarn_beta_slow");
    copy("mscale_all_dim", "rope.scaling.yarn_log_multiplier");
    copy("llama_4_scaling_beta", "attention.temperature_scale");
    const nlohmann::json& lengths =
        scaling.contains("original_max_position_embeddings") ? scaling : config;
    if (lengths.contains("original_max_position_embeddings")) {
      add("rope.scaling.original_context_length",
          number(lengths.at("original_max_position_embeddings")));
    }
    for (const std::string kind : {"long", "short"}) {
      if (!scaling.contains(kind + "_factor")) continue;
      const auto factors = scaling.at(kind + "_factor").get<std::vector<float>>();
      writer.add_tensor("rope_factors_" + kind + ".weight",
                        {static_cast<std::int64_t>(factors.size())}, factors);
    }
  }
  writer.add("tokenizer.ggml.bos_token_id", number(config.at("bos_token_id")));
  const nlohmann::json& end = config.at("eos_token_id");
  writer.add("tokenizer.ggml.eos_token_id", number(end.is_array() ? end[0] : end));
}

inline std::string gguf_name(std::string name, NormPlace norms) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    const std::size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
  };
  // Transformers' post_attention_layernorm is behind attention, or before the feed-forward part.
  const bool behind = norms != NormPlace::before;
  replace("model.embed_tokens.", "token_embd.");
  replace("model.layers.", "blk.");
  replace("model.norm.", "output_norm.");
  replace("lm_head.", "output.");
  replace("self_attn.qkv_proj", "attn_qkv");
  for (const char* each : {"q", "k", "v"}) {
    replace(std::string("self_attn.") + each + "_proj", std::string("attn_") + each);
    replace(std::string("self_attn.") + each + "_norm", std::string("attn_") + each + "_norm");
  }
  replace("self_attn.o_proj", "attn_output");
  replace("mlp.gate_up_proj", "ffn_up");
  for (const char* each : {"gate", "up", "down"}) {
    replace(std::string("mlp.") + each + "_proj", std::string("ffn_") + each);
  }
  replace("input_layernorm", "attn_norm");
  replace("pre_feedforward_layernorm", "ffn_norm");
  replace("post_self_attn_layernorm", "post_attention_norm");
  replace("post_attention_layernorm", behind ? "post_attention_norm" : "ffn_norm");
  replace("post_feedforward_layernorm", "post_ffw_norm");
  replace("post_mlp_layernorm", "post_ffw_norm");
  return name;
}

// Row h d + i of a head becomes row h d + 2 (i mod d/2) + i / (d/2).
inline std::vector<float> with_pairs_as_neighbours(const std::vector<float>& rows,
                                                   std::int64_t head_dim, std::size_t cols) {
  const auto d = static_cast<std::size_t>(head_dim);
  std::vector<float> result(rows.size());
  for (std::size_t row = 0; row < rows.size() / cols; ++row) {
    const std::size_t i = row % d;
    const std::size_t to = row - i + 2 * (i % (d / 2)) + i / (d / 2);
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(row * cols), cols,
                result.begin() + static_cast<std::ptrdiff_t>(to * cols));
  }
  return result;
}

// Blocks of Q8_0; `values` become what they stand for.
inline std::string quantise_q8_0(std::vector<float>& values) {
  std::string bytes;
  for (std::size_t block = 0; block < values.size(); block += 32) {
    float largest = 0;
    for (std::size_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(values[block + i]));
    const f16 scale = from_float<f16>(largest / 127);
    const float d = to_float(scale);
    bytes += GgufWriter::raw(scale);
    for (std::size_t i = 0; i < 32; ++i) {
      const float q = d > 0 ? std::clamp(std::round(values[block + i] / d), -127.0F, 127.0F) : 0;
      const auto stored = static_cast<std::int8_t>(q);
      bytes += static_cast<char>(stored);
      values[block + i] = d * static_cast<float>(stored);
    }
  }
  return bytes;
}

enum class GgufWeights { f32, q8_0, f32_of_q8_0 };

// `spec` and `source`: the checkpoint's. Matrices whose rows are whole blocks get the type asked
// for.
inline GgufWriter gguf_of_checkpoint(const nlohmann::json& config, const ModelSpec& spec,
                                     const WeightSource& source,
                                     GgufWeights weights = GgufWeights::f32) {
  GgufWriter writer;
  add_gguf_metadata(config, spec, writer);
  const bool is_glm = spec.family == "glm4";
  const bool interleaves = spec.family == "llama" || spec.family == "granite" ||
                           spec.family == "smollm3" || spec.family == "ministral3";
  std::set<std::string> done;
  for (const WeightPiece& piece : lay_out_weights(spec, {}, DType::f32, nullptr).pieces) {
    if (!done.insert(piece.name).second) continue;
    std::size_t size = 1;
    for (const std::int64_t dimension : piece.shape) size *= static_cast<std::size_t>(dimension);
    std::vector<float> values(size);
    const Status status = source.read(piece.name, piece.shape, DType::f32, values.data());
    if (!status) throw std::runtime_error(status.message());
    for (float& value : values) value += piece.added;
    const std::string name =
        gguf_name(piece.name, is_glm ? NormPlace::before : spec.layer(0).norms);
    const auto cols =
        piece.shape.size() == 2 ? static_cast<std::size_t>(piece.shape[1]) : std::size_t{1};
    const bool rotates =
        name.find("attn_q.") != std::string::npos || name.find("attn_k.") != std::string::npos;
    if (interleaves && rotates) {
      values = with_pairs_as_neighbours(values, spec.attention().head_dim, cols);
    }
    if (weights != GgufWeights::f32 && cols % 32 == 0) {
      const std::string packed = quantise_q8_0(values);
      if (weights == GgufWeights::q8_0) {
        writer.add_tensor(name, piece.shape, 8, packed);
        continue;
      }
    }
    writer.add_tensor(name, piece.shape, values);
  }
  return writer;
}

}  // namespace tandem::testing
