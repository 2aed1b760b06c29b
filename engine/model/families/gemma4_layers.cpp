#include "engine/model/families/gemma4_layers.h"

#include <algorithm>
#include <string>

namespace tandem {
namespace {

constexpr std::int64_t kMaxColumns = 1 << 20;  // of a projection

// Reads the entry of 'per_layer_config' for one layer. Other fields would change the layer, too.
void read_own_heads(CheckpointConfig& config, const Json& own, AttentionSpec& attention) {
  CheckpointConfig fields(own);
  attention.head_dim = fields.integer("head_dim", 2, 4096);
  const auto kv_heads = fields.maybe_integer("num_key_value_heads", 1, 65536);
  attention.kv_heads = kv_heads.value_or(attention.kv_heads);
  config.fail(fields.status());
  const auto count = static_cast<std::size_t>(1) + (fields.has("num_key_value_heads") ? 1 : 0);
  if (own.size() > count) {
    config.fail(invalid("'per_layer_config' sets more than the heads of layers"));
  }
}

}  // namespace

void read_gemma4_heads(CheckpointConfig& config, const std::vector<bool>& windowed,
                       ModelSpec& spec) {
  const Json* const by_layer = config.find("per_layer_config");
  if (by_layer != nullptr &&
      (!by_layer->is_object() ||
       static_cast<std::ptrdiff_t>(by_layer->size()) != std::ranges::count(windowed, false))) {
    return config.fail(invalid("'per_layer_config' must have an entry for each full layer alone"));
  }
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i]) continue;
    AttentionSpec& attention = spec.layers[i].attention;
    if (by_layer == nullptr) {
      constexpr std::string_view kHeadDim = "global_head_dim";
      attention.head_dim = config.maybe_integer(kHeadDim, 2, 4096)
                               .value_or(config.has(kHeadDim) ? attention.head_dim : 512);
      const auto kv_heads = config.maybe_integer("num_global_key_value_heads", 1, 65536);
      if (kv_heads && attention.keys_as_values) attention.kv_heads = *kv_heads;
    } else {
      const Json* const own = JsonFields<Json>(*by_layer).find(std::to_string(i));
      if (own == nullptr || !own->is_object()) {
        return config.fail(invalid("'per_layer_config' says nothing of layer {}", i));
      }
      read_own_heads(config, *own, attention);
    }
    if (!config.status().ok()) return;
    if (attention.heads % attention.kv_heads != 0 || attention.head_dim % 2 != 0 ||
        attention.q_size() > kMaxColumns) {
      config.fail(invalid("layer {} has {} heads of {}, and {} of keys", i, attention.heads,
                          attention.head_dim, attention.kv_heads));
    }
  }
}

void read_gemma4_shared_keys(CheckpointConfig& config, const std::vector<bool>& windowed,
                             ModelSpec& spec) {
  const auto shared = static_cast<std::size_t>(
      config.maybe_integer("num_kv_shared_layers", 0, spec.num_layers() - 1).value_or(0));
  const bool doubles = config.flag("use_double_wide_mlp", false);
  const std::size_t own = windowed.size() - shared;
  for (std::size_t i = own; i < windowed.size(); ++i) {
    std::size_t source = own;
    while (source > 0 && windowed[source - 1] != windowed[i]) --source;
    if (source == 0) {
      return config.fail(
          invalid("'num_kv_shared_layers' is {}: layer {} has no layer of its kind before them",
                  shared, i));
    }
    spec.layers[i].attention.keys_of = source - 1;
    if (doubles) spec.layers[i].mlp.size *= 2;
  }
}

void read_gemma4_layer_inputs(CheckpointConfig& config, ModelSpec& spec) {
  constexpr std::string_view kSize = "hidden_size_per_layer_input";
  const std::int64_t size =
      config.maybe_integer(kSize, 0, 1 << 20).value_or(config.has(kSize) ? 0 : 256);
  const std::int64_t vocab =
      config.maybe_integer("vocab_size_per_layer_input", 1, 1 << 24).value_or(262144);
  if (size == 0) return;
  if (size * spec.num_layers() > kMaxColumns) {
    config.fail(invalid("'{}' is {}: too large for {} layers", kSize, size, spec.num_layers()));
  }
  if (vocab != spec.vocab_size) {
    config.fail(
        invalid("'vocab_size_per_layer_input' is {}, and 'vocab_size' {}", vocab, spec.vocab_size));
  }
  add_layer_inputs(size, spec);
}

}  // namespace tandem
