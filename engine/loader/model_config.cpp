#include "engine/loader/model_config.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "base/log.h"
#include "engine/loader/foreign_checkpoint.h"
#include "engine/loader/json_fields.h"

namespace tandem {
namespace {

using Fields = JsonFields<Json>;

constexpr std::uint64_t kMaxConfigBytes = 4 << 20;

struct Family {
  Architecture architecture;
  std::string_view model_type;
  std::string_view class_name;
};
constexpr std::array<Family, 4> kFamilies = {{
    {Architecture::llama, "llama", "LlamaForCausalLM"},
    {Architecture::mistral, "mistral", "MistralForCausalLM"},
    {Architecture::qwen2, "qwen2", "Qwen2ForCausalLM"},
    {Architecture::qwen3, "qwen3", "Qwen3ForCausalLM"},
}};
constexpr std::string_view kSupported = "Tandem runs Llama, Mistral, Qwen2 and Qwen3 causal LMs";

Result<Architecture> read_architecture(const Json& json) {
  const Fields fields(json);
  TANDEM_ASSIGN(const std::string model_type, fields.text("model_type"));
  std::string class_name;
  if (const Json* const list = fields.find("architectures")) {
    if (!list->is_array() || list->size() != 1 || !list->front().is_string()) {
      return invalid("'architectures' must be a list of one name");
    }
    class_name = list->front().get<std::string>();
  }
  if (model_type.empty() && class_name.empty()) {
    return invalid("'model_type' and 'architectures' are missing");
  }
  for (const Family& family : kFamilies) {
    const bool is_type = model_type.empty() || model_type == family.model_type;
    const bool is_class = class_name.empty() || class_name == family.class_name;
    if (is_type && is_class) return family.architecture;
  }
  return invalid("architecture '{}' (model_type '{}') is not supported; {}", class_name, model_type,
                 kSupported);
}

Status read_sizes(const Fields& fields, ModelConfig& config) {
  constexpr std::int64_t kMaxWidth = 1 << 20;
  constexpr std::int64_t kMaxTable = 1 << 24;
  TANDEM_ASSIGN(config.hidden_size, fields.required_integer("hidden_size", 1, kMaxWidth));
  TANDEM_ASSIGN(config.num_layers, fields.required_integer("num_hidden_layers", 1, 4096));
  TANDEM_ASSIGN(config.num_heads, fields.required_integer("num_attention_heads", 1, 65536));
  TANDEM_ASSIGN(config.ffn_size, fields.required_integer("intermediate_size", 1, kMaxTable));
  TANDEM_ASSIGN(config.vocab_size, fields.required_integer("vocab_size", 1, kMaxTable));
  TANDEM_ASSIGN(config.max_position_embeddings,
                fields.required_integer("max_position_embeddings", 1, 1 << 28));
  TANDEM_ASSIGN(config.rms_norm_eps, fields.required_number("rms_norm_eps", 0, 0.1));
  TANDEM_ASSIGN(const auto kv_heads, fields.integer("num_key_value_heads", 1, 65536));
  if (!kv_heads && config.architecture != Architecture::llama) {
    return invalid("'num_key_value_heads' is missing");
  }
  config.num_kv_heads = kv_heads.value_or(config.num_heads);  // Llama before grouped queries
  if (config.num_heads % config.num_kv_heads != 0) {
    return invalid("'num_attention_heads' is {}, no multiple of 'num_key_value_heads', {}",
                   config.num_heads, config.num_kv_heads);
  }
  TANDEM_ASSIGN(const auto head_dim, fields.integer("head_dim", 2, 4096));
  if (!head_dim && config.architecture == Architecture::qwen3)
    return invalid("'head_dim' is missing");
  if (!head_dim && config.hidden_size % config.num_heads != 0) {
    return invalid("'hidden_size' is {}, no multiple of 'num_attention_heads', {}; set 'head_dim'",
                   config.hidden_size, config.num_heads);
  }
  config.head_dim = head_dim.value_or(config.hidden_size / config.num_heads);
  if (config.head_dim % 2 != 0) {
    return invalid("'head_dim' is {}; rotary embedding needs an even one", config.head_dim);
  }
  if (config.q_size() > kMaxWidth) {
    return invalid("'num_attention_heads' times 'head_dim' is {}, more than {}", config.q_size(),
                   kMaxWidth);
  }
  return {};
}

Result<RopeConfig> read_rope_object(const Json& object, std::optional<double> theta) {
  constexpr double kMaxTheta = 1e15;
  if (!object.is_object()) return invalid("must be an object");
  const Fields fields(object);
  RopeConfig rope;
  TANDEM_ASSIGN(const auto own_theta, fields.number("rope_theta", 0, kMaxTheta));
  rope.theta = own_theta.value_or(theta.value_or(rope.theta));
  TANDEM_ASSIGN(const auto partial, fields.number("partial_rotary_factor", 0, 1));
  if (partial.value_or(1) != 1)
    return invalid("'partial_rotary_factor' {} is not supported", *partial);
  TANDEM_ASSIGN(std::string type, fields.text("rope_type"));
  if (type.empty()) {
    TANDEM_ASSIGN(type, fields.text("type"));  // the spelling before transformers 4.43
  }
  if (type.empty() && !own_theta && !object.empty()) return invalid("'rope_type' is missing");
  if (type.empty() || type == "default") return rope;
  if (type != "llama3") {
    return invalid("rope type '{}' is not supported; 'default' and 'llama3' are", type);
  }
  RopeConfig::Llama3Scaling scaling;
  TANDEM_ASSIGN(scaling.factor, fields.required_number("factor", 0, 1e6));
  TANDEM_ASSIGN(scaling.low_freq_factor, fields.required_number("low_freq_factor", 0, 1e6));
  TANDEM_ASSIGN(scaling.high_freq_factor, fields.required_number("high_freq_factor", 0, 1e6));
  TANDEM_ASSIGN(scaling.original_max_position_embeddings,
                fields.required_number("original_max_position_embeddings", 0, 1 << 28));
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    return invalid("'high_freq_factor' {} must be above 'low_freq_factor' {}",
                   scaling.high_freq_factor, scaling.low_freq_factor);
  }
  rope.llama3 = scaling;
  return rope;
}

// transformers 5 writes rope_parameters, transformers 4 rope_theta and rope_scaling.
Status read_rope(const Fields& fields, ModelConfig& config) {
  TANDEM_ASSIGN(const auto theta, fields.number("rope_theta", 0, 1e15));
  TANDEM_ASSIGN(const auto partial, fields.number("partial_rotary_factor", 0, 1));
  if (partial.value_or(1) != 1)
    return invalid("'partial_rotary_factor' {} is not supported", *partial);
  const Json* const parameters = fields.find("rope_parameters");
  const Json* const scaling = fields.find("rope_scaling");
  if (parameters != nullptr && scaling != nullptr && *parameters != *scaling) {
    return invalid("'rope_parameters' and 'rope_scaling' contradict each other; keep one");
  }
  if (theta) config.rope.theta = *theta;
  const Json* const object = parameters != nullptr ? parameters : scaling;
  if (object == nullptr) return {};
  Result<RopeConfig> rope = read_rope_object(*object, theta);
  if (!rope)
    return rope.status().with_context(parameters != nullptr ? "rope_parameters" : "rope_scaling");
  config.rope = *rope;
  return {};
}

// Attention over the whole context is all the engine computes: a window that never cuts it is fine.
Status heed_window(const Json& json, ModelConfig& config) {
  const Fields fields(json);
  if (config.architecture == Architecture::llama) return {};
  TANDEM_ASSIGN(const auto window, fields.integer("sliding_window", 0, INT64_MAX));
  if (window && *window >= config.max_position_embeddings) return {};
  TANDEM_ASSIGN(const bool use,
                fields.boolean("use_sliding_window", config.architecture == Architecture::mistral));
  bool sliding = use && window.has_value();
  if (const Json* const types = fields.find("layer_types")) {
    if (!types->is_array()) return invalid("'layer_types' must be a list");
    for (const Json& type : *types) {
      if (type == "sliding_attention") {
        sliding = true;
      } else if (type != "full_attention") {
        return invalid("'layer_types' asks for {}, which is not supported", type.dump());
      }
    }
  }
  if (!sliding) return {};
  if (!window || *window == 0) return invalid("'layer_types' slides without a 'sliding_window'");
  // Up to the window's length a sliding layer sees everything: a context cut to it is computed
  // exactly.
  log::warning("the context is cut from {} to {} tokens, the length of the model's sliding window",
               config.max_position_embeddings, *window);
  config.max_position_embeddings = *window;
  return {};
}

Status refuse_unsupported(const Json& json) {
  const Fields fields(json);
  if (const Json* const quantization = fields.find("quantization_config")) {
    std::string method = "unknown";
    if (quantization->is_object()) {
      const Json* const name = Fields(*quantization).find("quant_method");
      if (name != nullptr && name->is_string()) method = name->get<std::string>();
    }
    return invalid("the weights are quantised ('quantization_config', method '{}'). {}", method,
                   kTakeUnquantised);
  }
  if (fields.find("quantization") != nullptr) {
    return invalid("the weights are quantised ('quantization', as MLX writes it). {}",
                   kTakeUnquantised);
  }
  for (const std::string_view name : {"hidden_act", "hidden_activation"}) {
    TANDEM_ASSIGN(const std::string activation, fields.text(name));
    if (!activation.empty() && activation != "silu" && activation != "swish") {
      return invalid("'{}' is '{}'; only silu is supported", name, activation);
    }
  }
  for (const std::string_view name : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    TANDEM_ASSIGN(const auto experts, fields.integer(name, 0, INT64_MAX));
    if (experts.value_or(0) > 0)
      return invalid("mixtures of experts ('{}') are not supported", name);
  }
  TANDEM_ASSIGN(const bool mlp_bias, fields.boolean("mlp_bias", false));
  if (mlp_bias) return invalid("'mlp_bias' is not supported");
  return {};
}

Status read_biases(const Fields& fields, ModelConfig& config) {
  TANDEM_ASSIGN(const bool bias, fields.boolean("attention_bias", false));
  const bool heeded =
      config.architecture == Architecture::llama || config.architecture == Architecture::qwen3;
  config.o_bias = heeded && bias;
  config.qkv_bias = config.o_bias || config.architecture == Architecture::qwen2;
  config.qk_norm = config.architecture == Architecture::qwen3;
  return {};
}

Status read_dtype(const Fields& fields, ModelConfig& config) {
  TANDEM_ASSIGN(std::string dtype, fields.text("dtype"));
  if (dtype.empty()) {
    TANDEM_ASSIGN(dtype, fields.text("torch_dtype"));
  }
  if (dtype.empty()) dtype = "float32";  // transformers' default
  Result<DType> parsed = parse_dtype(dtype);
  if (!parsed) return parsed.status().with_context("'dtype'");
  config.dtype = *parsed;
  return {};
}

// One id, a list of them, or nothing.
Result<std::vector<std::int32_t>> read_token_ids(const Fields& fields, std::string_view name,
                                                 std::int64_t vocab_size) {
  std::vector<std::int32_t> ids;
  const Json* const field = fields.find(name);
  if (field == nullptr) return ids;
  if (field->is_array() && field->size() > 1024) return invalid("'{}' has too many entries", name);
  const auto add = [&](const Json& id) -> Status {
    TANDEM_ASSIGN(const std::int64_t value, Fields::as_integer(name, id, 0, vocab_size - 1));
    const auto token = static_cast<std::int32_t>(value);
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) ids.push_back(token);
    return {};
  };
  if (!field->is_array()) {
    TANDEM_TRY(add(*field));
    return ids;
  }
  for (const Json& id : *field) TANDEM_TRY(add(id));
  return ids;
}

Result<ModelConfig> read_model_config(const Json& json) {
  ModelConfig config;
  const Fields fields(json);
  TANDEM_ASSIGN(config.architecture, read_architecture(json));
  TANDEM_TRY(refuse_unsupported(json));
  TANDEM_TRY(read_sizes(fields, config));
  TANDEM_TRY(heed_window(json, config));
  TANDEM_TRY(read_rope(fields, config));
  TANDEM_TRY(read_biases(fields, config));
  TANDEM_TRY(read_dtype(fields, config));
  TANDEM_ASSIGN(config.tie_word_embeddings, fields.boolean("tie_word_embeddings", false));
  TANDEM_ASSIGN(config.eos_token_ids, read_token_ids(fields, "eos_token_id", config.vocab_size));
  TANDEM_ASSIGN(const auto bos, fields.integer("bos_token_id", 0, config.vocab_size - 1));
  if (bos) config.bos_token_id = static_cast<std::int32_t>(*bos);
  return config;
}

}  // namespace

std::string_view to_string(Architecture architecture) {
  for (const Family& family : kFamilies) {
    if (family.architecture == architecture) return family.model_type;
  }
  return "?";
}

Result<ModelConfig> parse_model_config(std::string_view config_json) {
  TANDEM_ASSIGN(const Json json, parse_json_object<Json>(config_json));
  return read_model_config(json);
}

Result<ModelConfig> load_model_config(const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / "config.json";
  TANDEM_ASSIGN(const Json json, read_json_object<Json>(path, kMaxConfigBytes));
  Result<ModelConfig> config = read_model_config(json);
  if (!config) return config.status().with_context(path.string());

  const std::filesystem::path generation_path = dir / "generation_config.json";
  std::error_code ignored;  // what cannot be looked at is not there
  if (!std::filesystem::exists(generation_path, ignored)) return config;
  TANDEM_ASSIGN(const Json generation, read_json_object<Json>(generation_path, kMaxConfigBytes));
  Result<std::vector<std::int32_t>> ids =
      read_token_ids(Fields(generation), "eos_token_id", config->vocab_size);
  if (!ids) return ids.status().with_context(generation_path.string());
  // As in transformers, these replace the model's own.
  if (!ids->empty()) config->eos_token_ids = std::move(ids).value();
  return config;
}

}  // namespace tandem
