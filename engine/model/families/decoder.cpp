#include "engine/model/families/decoder.h"

#include <string>
#include <utility>

#include "base/log/log.h"

namespace tandem {
namespace {

void read_sizes(CheckpointConfig& config, const DecoderFields& fields, DecoderShape& shape) {
  constexpr std::int64_t kMaxWidth = 1 << 20;
  constexpr std::int64_t kMaxTable = 1 << 24;
  constexpr std::int64_t kMaxHeads = 65536;
  shape.hidden_size = config.integer("hidden_size", 1, kMaxWidth);
  shape.num_layers = config.integer("num_hidden_layers", 1, 4096);
  shape.num_heads = config.integer("num_attention_heads", 1, kMaxHeads);
  shape.ffn_size = config.integer("intermediate_size", 1, kMaxTable);
  shape.vocab_size = config.integer("vocab_size", 1, kMaxTable);
  shape.max_position_embeddings = config.integer("max_position_embeddings", 1, 1 << 28);
  shape.rms_norm_eps = config.number("rms_norm_eps", 0, 0.1);
  const auto kv_heads = config.maybe_integer("num_key_value_heads", 1, kMaxHeads);
  if (!kv_heads && fields.needs_kv_heads) config.fail(invalid("'num_key_value_heads' is missing"));
  const auto head_dim = config.maybe_integer("head_dim", 2, 4096);
  if (!config.status().ok()) return;

  shape.num_kv_heads = kv_heads.value_or(shape.num_heads);
  if (shape.num_heads % shape.num_kv_heads != 0) {
    config.fail(invalid("'num_attention_heads' is {}, no multiple of 'num_key_value_heads', {}",
                        shape.num_heads, shape.num_kv_heads));
  }
  if (!head_dim && fields.needs_head_dim) config.fail(invalid("'head_dim' is missing"));
  if (!head_dim && shape.hidden_size % shape.num_heads != 0) {
    config.fail(
        invalid("'hidden_size' is {}, no multiple of 'num_attention_heads', {}; set 'head_dim'",
                shape.hidden_size, shape.num_heads));
  }
  shape.head_dim = head_dim.value_or(shape.hidden_size / shape.num_heads);
  if (shape.head_dim % 2 != 0) {
    config.fail(invalid("'head_dim' is {}; rotary embedding needs an even one", shape.head_dim));
  }
  const std::int64_t q_size = shape.num_heads * shape.head_dim;
  if (q_size > kMaxWidth) {
    config.fail(
        invalid("'num_attention_heads' times 'head_dim' is {}, more than {}", q_size, kMaxWidth));
  }
}

void cut_to_window(CheckpointConfig& config, WindowField field, DecoderShape& shape) {
  if (field == WindowField::ignored) return;
  const auto window = config.maybe_integer("sliding_window", 0, INT64_MAX);
  if (window && *window >= shape.max_position_embeddings) return;
  const bool use = config.flag("use_sliding_window", field == WindowField::always);
  bool sliding = use && window.has_value();
  if (const Json* const types = config.find("layer_types")) {
    if (!types->is_array()) return config.fail(invalid("'layer_types' must be a list"));
    for (const Json& type : *types) {
      if (type == "sliding_attention") {
        sliding = true;
      } else if (type != "full_attention") {
        return config.fail(
            invalid("'layer_types' asks for {}, which is not supported", type.dump()));
      }
    }
  }
  if (!sliding || !config.status().ok()) return;
  if (!window || *window == 0) {
    return config.fail(invalid("'layer_types' slides without a 'sliding_window'"));
  }
  log::warning("the context is cut from {} to {} tokens, the length of the model's sliding window",
               shape.max_position_embeddings, *window);
  shape.max_position_embeddings = *window;
}

void refuse_partial_rotary(CheckpointConfig& config) {
  const auto partial = config.maybe_number("partial_rotary_factor", 0, 1);
  if (partial.value_or(1) != 1) {
    config.fail(invalid("'partial_rotary_factor' {} is not supported", *partial));
  }
}

Result<RotarySpec> read_rotary_object(const Json& object, std::optional<double> theta) {
  constexpr double kMaxTheta = 1e15;
  if (!object.is_object()) return invalid("must be an object");
  CheckpointConfig fields(object);
  RotarySpec rotary;
  const auto own_theta = fields.maybe_number("rope_theta", 0, kMaxTheta);
  rotary.theta = own_theta.value_or(theta.value_or(rotary.theta));
  refuse_partial_rotary(fields);
  std::string type = fields.text("rope_type");
  if (type.empty()) type = fields.text("type");  // the name before transformers 4.43
  TANDEM_TRY(fields.status());
  if (type.empty() && !own_theta && !object.empty()) return invalid("'rope_type' is missing");
  if (type.empty() || type == "default") return rotary;
  if (type != "llama3") {
    return invalid("rope type '{}' is not supported; 'default' and 'llama3' are", type);
  }
  RotarySpec::Llama3Scaling scaling;
  scaling.factor = fields.number("factor", 0, 1e6);
  scaling.low_freq_factor = fields.number("low_freq_factor", 0, 1e6);
  scaling.high_freq_factor = fields.number("high_freq_factor", 0, 1e6);
  scaling.original_max_position_embeddings =
      fields.number("original_max_position_embeddings", 0, 1 << 28);
  TANDEM_TRY(fields.status());
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    return invalid("'high_freq_factor' {} must be above 'low_freq_factor' {}",
                   scaling.high_freq_factor, scaling.low_freq_factor);
  }
  rotary.llama3 = scaling;
  return rotary;
}

// transformers 5 writes rope_parameters, transformers 4 rope_theta and rope_scaling.
void read_rotary(CheckpointConfig& config, DecoderShape& shape) {
  const auto theta = config.maybe_number("rope_theta", 0, 1e15);
  refuse_partial_rotary(config);
  const Json* const parameters = config.find("rope_parameters");
  const Json* const scaling = config.find("rope_scaling");
  if (parameters != nullptr && scaling != nullptr && *parameters != *scaling) {
    config.fail(invalid("'rope_parameters' and 'rope_scaling' contradict each other; keep one"));
  }
  if (theta) shape.rotary.theta = *theta;
  const Json* const object = parameters != nullptr ? parameters : scaling;
  if (object == nullptr || !config.status().ok()) return;
  Result<RotarySpec> rotary = read_rotary_object(*object, theta);
  if (!rotary) {
    return config.fail(
        rotary.status().with_context(parameters != nullptr ? "rope_parameters" : "rope_scaling"));
  }
  shape.rotary = *rotary;
}

}  // namespace

DecoderShape read_decoder(CheckpointConfig& config, const DecoderFields& fields) {
  DecoderShape shape;
  read_sizes(config, fields, shape);
  if (config.status().ok()) cut_to_window(config, fields.window, shape);
  if (config.status().ok()) read_rotary(config, shape);
  return shape;
}

}  // namespace tandem
