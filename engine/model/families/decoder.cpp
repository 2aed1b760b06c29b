#include "engine/model/families/decoder.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kMaxTable = 1 << 24;
constexpr std::int64_t kMaxHeads = 65536;

std::int64_t read_integer(CheckpointConfig& config, std::string_view name, std::int64_t max,
                          std::int64_t fallback) {
  if (fallback == 0) return config.integer(name, 1, max);
  return config.maybe_integer(name, 1, max).value_or(fallback);
}

void read_heads(CheckpointConfig& config, const DecoderFields& fields, DecoderShape& shape) {
  const DecoderShape& defaults = fields.defaults;
  shape.num_heads = read_integer(config, "num_attention_heads", kMaxHeads, defaults.num_heads);
  shape.num_kv_heads =
      config.maybe_integer("num_key_value_heads", 1, kMaxHeads).value_or(defaults.num_kv_heads);
  shape.head_dim = config.maybe_integer("head_dim", 2, 4096).value_or(defaults.head_dim);
  if (!config.status().ok()) return;
  if (shape.num_kv_heads == 0) {
    if (fields.needs_kv_heads) config.fail(invalid("'num_key_value_heads' is missing"));
    shape.num_kv_heads = shape.num_heads;
  }
  if (shape.num_heads % shape.num_kv_heads != 0) {
    config.fail(invalid("'num_attention_heads' is {}, no multiple of 'num_key_value_heads', {}",
                        shape.num_heads, shape.num_kv_heads));
  }
  if (shape.head_dim == 0) {
    if (fields.needs_head_dim) config.fail(invalid("'head_dim' is missing"));
    if (shape.hidden_size % shape.num_heads != 0) {
      config.fail(
          invalid("'hidden_size' is {}, no multiple of 'num_attention_heads', {}; set 'head_dim'",
                  shape.hidden_size, shape.num_heads));
    }
    shape.head_dim = shape.hidden_size / shape.num_heads;
  }
  if (shape.head_dim % 2 != 0) {
    config.fail(invalid("'head_dim' is {}; rotary embedding needs an even one", shape.head_dim));
  }
  const std::int64_t q_size = shape.num_heads * shape.head_dim;
  if (q_size > kMaxWidth) {
    config.fail(
        invalid("'num_attention_heads' times 'head_dim' is {}, more than {}", q_size, kMaxWidth));
  }
}

void read_sizes(CheckpointConfig& config, const DecoderFields& fields, DecoderShape& shape) {
  const DecoderShape& defaults = fields.defaults;
  shape.hidden_size = read_integer(config, "hidden_size", kMaxWidth, defaults.hidden_size);
  shape.num_layers = read_integer(config, "num_hidden_layers", 4096, defaults.num_layers);
  shape.ffn_size = read_integer(config, "intermediate_size", kMaxTable, defaults.ffn_size);
  shape.vocab_size = read_integer(config, "vocab_size", kMaxTable, defaults.vocab_size);
  shape.max_position_embeddings =
      read_integer(config, "max_position_embeddings", 1 << 28, defaults.max_position_embeddings);
  shape.rms_norm_eps =
      defaults.rms_norm_eps == 0
          ? config.number("rms_norm_eps", 0, 0.1)
          : config.maybe_number("rms_norm_eps", 0, 0.1).value_or(defaults.rms_norm_eps);
  read_heads(config, fields, shape);
}

// Gemma's configs have both fields, of which 'hidden_activation' counts.
void read_activation(CheckpointConfig& config, DecoderShape& shape) {
  for (const std::string_view field : {"hidden_activation", "hidden_act"}) {
    const std::string name = config.text(field);
    if (name.empty()) continue;
    if (name == "silu" || name == "swish") {
      shape.activation = Activation::silu;
    } else if (name == "gelu_pytorch_tanh") {
      shape.activation = Activation::gelu_tanh;
    } else {
      config.fail(
          invalid("'{}' is '{}'; only silu and gelu_pytorch_tanh are supported", field, name));
    }
    return;
  }
}

// [layers] of layers with a window. No value: the config does not say.
std::optional<std::vector<bool>> read_layer_types(CheckpointConfig& config, std::size_t layers) {
  const Json* const types = config.find("layer_types");
  if (types == nullptr) return std::nullopt;
  std::vector<bool> windowed;
  if (!types->is_array() || types->size() != layers) {
    config.fail(invalid("'layer_types' must be a list of {}, one for each layer", layers));
    return std::nullopt;
  }
  for (const Json& type : *types) {
    windowed.push_back(type == "sliding_attention");
    if (!windowed.back() && type != "full_attention") {
      config.fail(invalid("'layer_types' asks for {}, which is not supported", type.dump()));
    }
  }
  return windowed;
}

}  // namespace

RotaryFields rotary_fields_of(const DecoderShape& shape) {
  RotaryFields fields;
  fields.head_dim = shape.head_dim;
  fields.max_positions = shape.max_position_embeddings;
  return fields;
}

DecoderShape read_decoder(CheckpointConfig& config, const DecoderFields& fields) {
  DecoderShape shape = fields.defaults;
  read_sizes(config, fields, shape);
  read_activation(config, shape);
  shape.mlp_bias = config.flag("mlp_bias", false);
  if (!config.status().ok()) return shape;
  RotaryFields rotary = rotary_fields_of(shape);
  rotary.theta = fields.defaults.rotary.theta;
  rotary.partial = fields.partial_rotary;
  rotary.proportional = fields.proportional_rotary;
  shape.rotary = read_rotary(config, rotary);
  return shape;
}

std::vector<bool> read_windows(CheckpointConfig& config, const WindowedLayers& by_default,
                               ModelSpec& spec, std::int64_t absent) {
  const std::int64_t window = config.maybe_integer("sliding_window", 0, INT64_MAX)
                                  .value_or(config.has("sliding_window") ? 0 : absent);
  const auto types = read_layer_types(config, spec.layers.size());
  std::vector<bool> windowed(spec.layers.size());
  if (!config.status().ok()) return windowed;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    windowed[i] = types ? (*types)[i] : by_default(static_cast<std::int64_t>(i));
    if (!windowed[i]) continue;
    if (window == 0 && types) {
      config.fail(invalid("'layer_types' asks for windows, and 'sliding_window' is missing"));
      break;
    }
    if (window < spec.max_position_embeddings) spec.layers[i].attention.window = window;
  }
  return windowed;
}

void fuse_qkv(std::string_view name, ModelSpec& spec) {
  spec.names.q = spec.names.k = spec.names.v = name;
  spec.modules.fuse(Site::qkv, name);
}

void fuse_gate_up(std::string_view name, ModelSpec& spec) {
  spec.names.gate = spec.names.up = name;
  spec.modules.fuse(Site::gate_up, name);
}

void read_local_rotary(CheckpointConfig& config, RotaryFields fields,
                       const std::vector<bool>& windowed, ModelSpec& spec) {
  fields.layer_type = "sliding_attention";
  fields.scaled = false;
  spec.rotary.push_back(read_rotary(config, fields));
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if (windowed[i]) spec.layers[i].attention.rotary = spec.rotary.size() - 1;
  }
}

}  // namespace tandem
