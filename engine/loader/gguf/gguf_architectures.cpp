#include "engine/loader/gguf/gguf_architectures.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text/shown_text.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMaxList = 4096;  // as many layers, or rotary pairs

// 'attention.sliding_window_pattern': every how many layers one is full, or which layers are not.
void translate_window(MetadataTranslation& to) {
  to.copy_integer("attention.sliding_window", "sliding_window");
  const GgufValue* const pattern = to.any("attention.sliding_window_pattern");
  if (pattern == nullptr) return;
  if (!pattern->is_list()) {
    return to.copy_integer("attention.sliding_window_pattern", "sliding_window_pattern");
  }
  if (pattern->count() > static_cast<std::uint64_t>(kMaxList)) {
    return to.fail(
        invalid("'attention.sliding_window_pattern' has more than {} entries", kMaxList));
  }
  Json types = Json::array();
  for (std::uint64_t i = 0; i < pattern->count(); ++i) {
    const std::optional<bool> windowed = pattern->boolean(i);
    if (!windowed)
      return to.fail(invalid("'attention.sliding_window_pattern' is no list of flags"));
    types.push_back(*windowed ? "sliding_attention" : "full_attention");
  }
  to.set("layer_types", std::move(types));
}

void translate_llama(MetadataTranslation& to) {
  to.set("model_type", "llama");
  to.set("attention_bias", to.has_tensor("blk.0.attn_q.bias"));
  to.set("mlp_bias", to.has_tensor("blk.0.ffn_down.bias"));
}

void translate_qwen2(MetadataTranslation& to) {
  to.set("model_type", "qwen2");
}

void translate_qwen3(MetadataTranslation& to) {
  to.set("model_type", "qwen3");
  to.set("attention_bias", to.has_tensor("blk.0.attn_q.bias"));
}

// The metadata does not have the scale of scores: all sizes but the largest have that of the head.
void translate_gemma_scale(MetadataTranslation& to, std::int64_t layers_of_largest) {
  const bool largest = to.written("num_hidden_layers") == layers_of_largest;
  const std::int64_t heads = std::max<std::int64_t>(to.written("num_attention_heads"), 1);
  to.set("query_pre_attn_scalar",
         largest ? to.written("hidden_size") / heads : to.written("head_dim"));
}

void translate_gemma2(MetadataTranslation& to) {
  to.set("model_type", "gemma2");
  translate_window(to);
  to.copy_number("attn_logit_softcapping", "attn_logit_softcapping");
  to.copy_number("final_logit_softcapping", "final_logit_softcapping");
  translate_gemma_scale(to, 46);
}

void translate_gemma3(MetadataTranslation& to) {
  to.set("model_type", "gemma3_text");
  to.require("attention.sliding_window");
  translate_window(to);
  to.copy_number("rope.freq_base_swa", "rope_local_base_freq");
  to.copy_number("final_logit_softcapping", "final_logit_softcapping");
  translate_gemma_scale(to, 62);
}

// Long and short factors are tensors.
void translate_phi3(MetadataTranslation& to) {
  to.set("model_type", "phi3");
  translate_window(to);
  to.ignore("rope.scaling.attn_factor");  // follows from the two lengths
  const auto original = to.integer("rope.scaling.original_context_length");
  Json scaling = {{"rope_type", "longrope"}};
  for (const std::string_view kind : {"long", "short"}) {
    const auto factors = read_list(to.model(), fmt::format("rope_factors_{}.weight", kind));
    if (!factors) return to.fail(factors.status());
    if (factors->empty()) return;
    scaling[fmt::format("{}_factor", kind)] = *factors;
  }
  if (original) {
    scaling["original_max_position_embeddings"] = *original;
    to.set("original_max_position_embeddings", *original);
  }
  to.set("rope_scaling", std::move(scaling));
}

// Families whose layers with windows have the same base as the others.
void refuse_other_base_of_windows(MetadataTranslation& to) {
  const auto windowed_base = to.number("rope.freq_base_swa");
  if (windowed_base && windowed_base != to.number("rope.freq_base")) {
    to.fail(invalid("'rope.freq_base_swa' is {}, not 'rope.freq_base'", *windowed_base));
  }
}

// OLMo 3 is an OLMo 2 with windows.
void translate_olmo2(MetadataTranslation& to) {
  to.set("model_type", to.has("attention.sliding_window") ? "olmo3" : "olmo2");
  translate_window(to);
  refuse_other_base_of_windows(to);
}

void translate_smollm3(MetadataTranslation& to) {
  to.set("model_type", "smollm3");
}

void translate_granite(MetadataTranslation& to) {
  to.set("model_type", "granite");
  to.set("attention_bias", to.has_tensor("blk.0.attn_q.bias"));
  to.require("attention.scale");
  to.copy_number("attention.scale", "attention_multiplier");
  to.copy_number("embedding_scale", "embedding_multiplier");
  to.copy_number("residual_scale", "residual_multiplier");
  to.copy_number("logit_scale", "logits_scaling");
}

void translate_glm4(MetadataTranslation& to) {
  to.set("model_type", "glm4");
  to.set("attention_bias", to.has_tensor("blk.0.attn_q.bias"));
}

void translate_cohere2(MetadataTranslation& to) {
  to.set("model_type", "cohere2");
  to.require("attention.sliding_window");
  translate_window(to);
  refuse_other_base_of_windows(to);
  to.copy_number("attention.layer_norm_epsilon", "layer_norm_eps");
  to.require("logit_scale");
  to.copy_number("logit_scale", "logit_scale");
}

// Ministral 3, and the text of Mistral Small 3.1, which is a Mistral: its queries do not grow with
// their position.
void translate_mistral3(MetadataTranslation& to) {
  const auto growth = to.number("attention.temperature_scale");
  const auto mscale = to.number("rope.scaling.yarn_log_multiplier");
  const bool grows = growth.value_or(0) != 0;
  to.set("model_type", grows ? "ministral3" : "mistral");
  Json* const scaling = to.written_object("rope_scaling");
  if (scaling == nullptr) return;
  if (grows) (*scaling)["llama_4_scaling_beta"] = *growth;
  if (!mscale) return;
  (*scaling)["mscale"] = 1;
  (*scaling)["mscale_all_dim"] = *mscale;
}

constexpr std::array kArchitectures = {
    GgufArchitecture{"llama", translate_llama, true},
    GgufArchitecture{"qwen2", translate_qwen2},
    GgufArchitecture{"qwen3", translate_qwen3},
    GgufArchitecture{"gemma2", translate_gemma2},
    GgufArchitecture{"gemma3", translate_gemma3},
    GgufArchitecture{"phi3", translate_phi3},
    GgufArchitecture{"olmo2", translate_olmo2},
    GgufArchitecture{"smollm3", translate_smollm3, true},
    GgufArchitecture{"granite", translate_granite, true},
    GgufArchitecture{"glm4", translate_glm4},
    GgufArchitecture{"cohere2", translate_cohere2},
    GgufArchitecture{"mistral3", translate_mistral3, true},
};

}  // namespace

Result<const GgufArchitecture*> gguf_architecture(const GgufModel& model) {
  TANDEM_ASSIGN(const std::string_view name, model.architecture());
  const auto found = std::ranges::find(kArchitectures, name, &GgufArchitecture::name);
  if (found != kArchitectures.end()) return &*found;
  std::vector<std::string_view> names;
  names.reserve(kArchitectures.size());
  for (const GgufArchitecture& each : kArchitectures) names.push_back(each.name);
  return invalid("architecture '{}' is not supported in GGUF files; {} are", shown_text(name),
                 fmt::join(names, ", "));
}

void translate_sizes(MetadataTranslation& to) {
  to.copy_integer("embedding_length", "hidden_size");
  to.copy_integer("block_count", "num_hidden_layers");
  to.copy_integer("feed_forward_length", "intermediate_size");
  to.copy_integer("context_length", "max_position_embeddings");
  to.copy_number("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  to.copy_integer("attention.head_count", "num_attention_heads");
  const auto kv_heads = to.integer("attention.head_count_kv");
  to.set("num_key_value_heads", kv_heads.value_or(to.written("num_attention_heads")));
  const std::int64_t heads = to.written("num_attention_heads");
  std::int64_t head_dim = heads > 0 ? to.written("hidden_size") / heads : 0;
  head_dim = to.integer("attention.key_length").value_or(head_dim);
  to.set("head_dim", head_dim);
  if (to.integer("attention.value_length").value_or(head_dim) != head_dim) {
    to.fail(invalid("'attention.value_length' is not {}, as keys have", head_dim));
  }
  to.copy_integer("expert_count", "num_local_experts");
  to.ignore("expert_used_count");
  to.ignore("vocab_size");  // the embedding's shape says it
}

void translate_rotary(MetadataTranslation& to) {
  to.copy_number("rope.freq_base", "rope_theta");
  const auto head_dim = static_cast<double>(to.written("head_dim"));
  const auto rotated = to.integer("rope.dimension_count");
  if (rotated && static_cast<double>(*rotated) != head_dim) {
    to.set("partial_rotary_factor", static_cast<double>(*rotated) / head_dim);
  }
  to.ignore("rope.scaling.finetuned");
  const std::string type = shown_text(to.text("rope.scaling.type").value_or("none"));
  if (type == "none") {
    to.ignore("rope.scaling.factor");
    return;
  }
  Json scaling = {{"rope_type", type}};
  const auto copy = [&](std::string_view key, const char* field) {
    if (const auto value = to.number(key)) scaling[field] = *value;
  };
  copy("rope.scaling.factor", "factor");
  copy("rope.scaling.original_context_length", "original_max_position_embeddings");
  if (type == "yarn") {
    copy("rope.scaling.attn_factor", "attention_factor");
    const auto factor = to.number("rope.scaling.yarn_attn_factor");
    if (factor && scaling.value("attention_factor", *factor) != *factor) {
      to.fail(invalid("'rope.scaling.yarn_attn_factor' is {}, not 'rope.scaling.attn_factor'",
                      *factor));
    }
    copy("rope.scaling.yarn_attn_factor", "attention_factor");
    if (const auto mix = to.number("rope.scaling.yarn_ext_factor"); mix && *mix != 1) {
      to.fail(invalid("'rope.scaling.yarn_ext_factor' is {}; 1 is supported", *mix));
    }
    copy("rope.scaling.yarn_beta_fast", "beta_fast");
    copy("rope.scaling.yarn_beta_slow", "beta_slow");
  }
  to.set("rope_scaling", std::move(scaling));
}

// Reads a tensor that is a list of numbers; empty if it is absent.
Result<std::vector<float>> read_list(const GgufModel& model, const std::string& name) {
  const auto place = model.tensors().find(name);
  if (place == model.tensors().end()) return std::vector<float>();
  const GgufTensor& tensor = *place->second.tensor;
  if (tensor.type->dtype != DType::f32 || tensor.shape.size() != 1 || tensor.shape[0] > kMaxList) {
    return invalid("tensor '{}', {}, is no list of at most {} F32", name, to_string(tensor),
                   kMaxList);
  }
  std::vector<float> values(static_cast<std::size_t>(tensor.shape[0]));
  tensor.type->to_float(place->second.file->bytes(tensor).data(), values.size(), values.data());
  for (const float value : values) {
    if (!(value > 0 && std::isfinite(value))) {
      return invalid("tensor '{}' holds {}; only finite numbers above 0 make sense", name, value);
    }
  }
  return values;
}

}  // namespace tandem
