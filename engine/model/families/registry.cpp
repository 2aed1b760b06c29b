#include "engine/model/families/registry.h"

#include <fmt/ranges.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "engine/loader/foreign_checkpoint.h"
#include "engine/loader/gguf/gguf_config.h"
#include "engine/loader/model_files.h"
#include "engine/loader/quantisation_scheme.h"
#include "engine/model/families/families.h"

namespace tandem {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 4 << 20;

constexpr std::array kFamilies = {
    Family{"llama", "LlamaForCausalLM", "Llama", "", read_llama},
    Family{"mistral", "MistralForCausalLM", "Mistral", "", read_mistral},
    Family{"ministral3", "Ministral3ForCausalLM", "Ministral 3", "", read_ministral3},
    Family{"qwen2", "Qwen2ForCausalLM", "Qwen2", "", read_qwen2},
    Family{"qwen3", "Qwen3ForCausalLM", "Qwen3", "", read_qwen3},
    Family{"gemma2", "Gemma2ForCausalLM", "Gemma 2", "", read_gemma2},
    Family{"gemma3_text", "Gemma3ForCausalLM", "Gemma 3", "", read_gemma3},
    Family{"gemma3", "Gemma3ForConditionalGeneration", "Gemma 3 (text)", "text_config",
           read_gemma3},
    Family{"gemma4_text", "Gemma4ForCausalLM", "Gemma 4", "", read_gemma4},
    Family{"gemma4", "Gemma4ForConditionalGeneration", "Gemma 4 (text)", "text_config",
           read_gemma4},
    Family{"phi3", "Phi3ForCausalLM", "Phi-3", "", read_phi3},
    Family{"olmo2", "Olmo2ForCausalLM", "OLMo 2", "", read_olmo2},
    Family{"olmo3", "Olmo3ForCausalLM", "OLMo 3", "", read_olmo3},
    Family{"smollm3", "SmolLM3ForCausalLM", "SmolLM3", "", read_smollm3},
    Family{"granite", "GraniteForCausalLM", "Granite", "", read_granite},
    Family{"glm", "GlmForCausalLM", "GLM", "", read_glm},
    Family{"glm4", "Glm4ForCausalLM", "GLM-4", "", read_glm4},
    Family{"cohere2", "Cohere2ForCausalLM", "Cohere 2", "", read_cohere2},
};

std::string titles() {
  std::vector<std::string_view> all;
  all.reserve(kFamilies.size());
  for (const Family& family : kFamilies) all.push_back(family.title);
  const std::string_view last = all.back();
  all.pop_back();
  return fmt::format("{} and {}", fmt::join(all, ", "), last);
}

// The ends of the names of a family's classes: with a head, without one, and with a head that
// scores in its place.
constexpr std::string_view kCausal = "ForCausalLM";
constexpr std::string_view kWithoutHead = "Model";
constexpr std::string_view kScoring = "ForSequenceClassification";

// True for the family's own class, and for the other two of a text model.
bool has_class(const Family& family, std::string_view name) {
  if (name == family.class_name) return true;
  if (!family.class_name.ends_with(kCausal)) return false;
  const std::string_view stem =
      family.class_name.substr(0, family.class_name.size() - kCausal.size());
  if (!name.starts_with(stem)) return false;
  name.remove_prefix(stem.size());
  return name == kWithoutHead || name == kScoring;
}

// Returns null if the config has failed. `class_name` becomes the model's; empty: not given.
const Family* find_family(CheckpointConfig& config, std::string& class_name) {
  const std::string model_type = config.text("model_type");
  if (const Json* const list = config.find("architectures")) {
    if (!list->is_array() || list->size() != 1 || !list->front().is_string()) {
      config.fail(invalid("'architectures' must be a list of one name"));
    } else {
      class_name = list->front().get<std::string>();
    }
  }
  if (model_type.empty() && class_name.empty()) {
    config.fail(invalid("'model_type' and 'architectures' are missing"));
  }
  if (!config.status().ok()) return nullptr;
  for (const Family& family : kFamilies) {
    const bool is_type = model_type.empty() || model_type == family.name;
    const bool is_class = class_name.empty() || has_class(family, class_name);
    if (is_type && is_class) return &family;
  }
  config.fail(
      invalid("architecture '{}' (model_type '{}') is not supported; Tandem runs {} causal LMs",
              class_name, model_type, titles()));
  return nullptr;
}

void refuse_mlx(CheckpointConfig& config) {
  if (config.find("quantization") != nullptr) {
    config.fail(invalid("the weights are quantised ('quantization', as MLX writes it). {}",
                        kTakeUnquantised));
  }
}

void refuse_unsupported(CheckpointConfig& config) {
  refuse_mlx(config);
  if (!config.flag("is_causal", true)) {
    config.fail(invalid("attention in both directions ('is_causal': false) is not supported"));
  }
  for (const std::string_view name : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    if (config.maybe_integer(name, 0, INT64_MAX).value_or(0) > 0) {
      config.fail(invalid("mixtures of experts ('{}') are not supported", name));
    }
  }
}

void read_dtype(CheckpointConfig& config, ModelSpec& spec) {
  std::string dtype = config.text("dtype");
  if (dtype.empty()) dtype = config.text("torch_dtype");
  if (dtype.empty()) dtype = "float32";  // transformers' default
  Result<DType> parsed = parse_dtype(dtype);
  if (!parsed) return config.fail(parsed.status().with_context("'dtype'"));
  spec.dtype = *parsed;
}

// Reads the fields that have one meaning in all families, where the config has them.
void read_common(CheckpointConfig& config, ModelSpec& spec) {
  spec.tie_word_embeddings = config.flag("tie_word_embeddings", spec.tie_word_embeddings);
  std::vector<std::int32_t> ends = config.token_ids("eos_token_id", spec.vocab_size);
  if (!ends.empty()) spec.eos_token_ids = std::move(ends);
  if (const auto bos = config.maybe_integer("bos_token_id", 0, spec.vocab_size - 1)) {
    spec.bos_token_id = static_cast<std::int32_t>(*bos);
  }
}

// The names of a score head's labels, in order; transformers gives two if the config has none.
std::vector<std::string> read_labels(CheckpointConfig& config) {
  const Json* const names = config.find("id2label");
  if (names == nullptr) {
    const auto count = config.maybe_integer("num_labels", 1, kMaxLabels).value_or(2);
    return default_labels(count);
  }
  std::vector<std::string> labels;
  if (!names->is_object() || names->empty() ||
      names->size() > static_cast<std::size_t>(kMaxLabels)) {
    config.fail(invalid("'id2label' must be an object of 1 to {} names", kMaxLabels));
    return labels;
  }
  for (std::size_t i = 0; i < names->size(); ++i) {
    const auto label = names->find(fmt::to_string(i));
    if (label == names->end() || !label->is_string()) {
      config.fail(invalid("'id2label' has no text for label {}", i));
      return {};
    }
    labels.push_back(label->get<std::string>());
  }
  return labels;
}

Result<ModelSpec> read_spec(const Json& json) {
  CheckpointConfig config(json);
  std::string class_name;
  const Family* const family = find_family(config, class_name);
  if (family == nullptr) return config.status();
  const Json* text = &json;
  if (!family->text_config.empty()) {
    refuse_unsupported(config);
    TANDEM_TRY(config.status());
    text = config.find(family->text_config);
    if (text == nullptr || !text->is_object()) {
      return invalid("'{}' is missing", family->text_config);
    }
  }
  CheckpointConfig text_config(*text);
  refuse_unsupported(text_config);
  TANDEM_TRY(text_config.status());
  ModelSpec spec = family->read(text_config);
  TANDEM_TRY(text_config.status());
  spec.family = family->name;
  spec.names.multimodal = !family->text_config.empty();
  read_dtype(config, spec);
  if (class_name.ends_with(kWithoutHead) || class_name.ends_with(kScoring)) {
    spec.writes_text = false;
  }
  if (class_name.ends_with(kScoring)) spec.labels = read_labels(config);
  if (text != &json) read_common(text_config, spec);
  read_common(config, spec);
  TANDEM_TRY(text_config.status());
  TANDEM_TRY(config.status());
  TANDEM_TRY(check_computable(spec));
  return spec;
}

// Sets in `spec` how a GGUF file's tensors differ from those of the checkpoint that its config
// describes.
Status adapt_to_gguf(const std::filesystem::path& path, ModelSpec& spec) {
  TANDEM_ASSIGN(const GgufModel model, GgufModel::open(path));
  spec.stores_one_plus = spec.norm_adds_one;
  // The file may have been made of a multimodal checkpoint, after which adapters name their
  // modules.
  spec.names.multimodal = spec.family == "gemma3_text";
  TANDEM_ASSIGN(std::vector<double> divisors, rotary_divisors(model));
  if (divisors.empty()) return {};
  RotarySpec& rotary = spec.rotary.front();
  const std::int64_t head_dim = spec.attention().head_dim;
  const std::int64_t pairs = (rotary.rotated == 0 ? head_dim : rotary.rotated) / 2;
  if (spec.rotary.size() != 1 || static_cast<std::int64_t>(divisors.size()) != pairs) {
    return invalid("tensor 'rope_freqs.weight' has {} elements, and heads have {} pairs",
                   divisors.size(), pairs);
  }
  rotary.divisors = std::move(divisors);
  return {};
}

}  // namespace

Result<ModelSpec> parse_model_spec(std::string_view config_json) {
  TANDEM_ASSIGN(const Json json, parse_json_object<Json>(config_json));
  TANDEM_ASSIGN(ModelSpec spec, read_spec(json));
  TANDEM_TRY(QuantisationScheme::read(config_json).status());
  return spec;
}

Result<ModelSpec> load_model_spec(const std::filesystem::path& model) {
  const bool is_gguf = is_gguf_file(model);
  const auto path_of = [&](std::string_view name) {
    return (is_gguf ? model : model / name).string();
  };
  TANDEM_ASSIGN(const std::string text, read_model_file(model, "config.json", kMaxConfigBytes));
  Result<ModelSpec> spec = parse_model_spec(text);
  if (!spec) return spec.status().with_context(path_of("config.json"));
  if (is_gguf) {
    const Status status = adapt_to_gguf(model, *spec);
    if (!status) return status.with_context(model.string());
  }

  constexpr std::string_view kGeneration = "generation_config.json";
  const Result<std::string> generation_text = read_model_file(model, kGeneration, kMaxConfigBytes);
  if (!generation_text) {
    if (generation_text.status().code() == StatusCode::not_found) return spec;
    return generation_text.status();
  }
  const std::string generation_path = path_of(kGeneration);
  Result<Json> generation = parse_json_object<Json>(*generation_text);
  if (!generation) return generation.status().with_context(generation_path);
  CheckpointConfig fields(*generation);
  std::vector<std::int32_t> ids = fields.token_ids("eos_token_id", spec->vocab_size);
  if (!fields.status().ok()) return fields.status().with_context(generation_path);
  // As in transformers, these replace the end tokens of config.json.
  if (!ids.empty()) spec->eos_token_ids = std::move(ids);
  return spec;
}

}  // namespace tandem
