#include "engine/model/spec/model_spec.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/model/spec/decoder_modules.h"

namespace tandem {
namespace {

// The parts of a layer that may differ between layers, set to those of `first`.
LayerSpec in_the_shape_of(const LayerSpec& first, LayerSpec layer) {
  layer.attention.rotary = first.attention.rotary;
  layer.attention.window = first.attention.window;
  layer.attention.kv_heads = first.attention.kv_heads;
  layer.attention.head_dim = first.attention.head_dim;
  layer.attention.stored_heads = first.attention.stored_heads;
  layer.attention.stored_kv_heads = first.attention.stored_kv_heads;
  layer.attention.keys_as_values = first.attention.keys_as_values;
  layer.attention.keys_of = first.attention.keys_of;
  layer.mlp.size = first.mlp.size;
  layer.mlp.stored_size = first.mlp.stored_size;
  layer.input.makes_parts = first.input.makes_parts;
  return layer;
}

bool can_share_keys(const AttentionSpec& reader, const AttentionSpec& source) {
  return source.has_keys() && source.kv_heads == reader.kv_heads &&
         source.head_dim == reader.head_dim && source.window == reader.window;
}

Status check_layer(const ModelSpec& spec, std::size_t index) {
  const LayerSpec& layer = spec.layers[index];
  const AttentionSpec& attention = layer.attention;
  const auto refuse = [](bool asked, std::string_view what) -> Status {
    if (asked) return invalid("Tandem does not compute {} yet", what);
    return {};
  };
  const LayerSpec& first = spec.layers.front();
  TANDEM_TRY(refuse(!(in_the_shape_of(first, layer) == first), "layers of different shapes"));
  const bool before = layer.norms == NormPlace::before;
  TANDEM_TRY(refuse(layer.residual_multiplier != 1 && !before,
                    "multipliers of the residual beside norms behind a block"));
  TANDEM_TRY(refuse(layer.parallel && !before, "parallel blocks with norms behind them"));
  TANDEM_TRY(refuse(layer.output_scale && before, "scales of a layer without norms behind it"));
  TANDEM_TRY(refuse(!attention.has_keys() &&
                        (attention.keys_of >= index ||
                         !can_share_keys(attention, spec.layers[attention.keys_of].attention)),
                    "keys and values of a later layer, or of one of another shape"));
  TANDEM_TRY(refuse(layer.input.size != 0 && layer.norms != NormPlace::around,
                    "inputs by layer without norms on both sides of a block"));
  TANDEM_TRY(refuse(attention.keys_as_values && !attention.v_norm, "keys as values, not normed"));
  TANDEM_TRY(refuse(attention.rotary != AttentionSpec::kNoRotary &&
                        attention.head_dim != spec.rotary_head_dim(attention.rotary),
                    "heads of two sizes with one rotary embedding"));
  return refuse(spec.norm_centred && (!before || attention.qk_norm != QkNorm::none),
                "layer norms behind a block, or of queries and keys");
}

Status check_rotary(const RotarySpec& rotary, std::int64_t head_dim) {
  if (rotary.rotated % 2 == 0 && rotary.rotated <= head_dim) return {};
  return invalid("{} elements of a head of {} are rotated; Tandem needs an even number of them",
                 rotary.rotated, head_dim);
}

}  // namespace

std::vector<std::string> default_labels(std::int64_t count) {
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  return labels;
}

Status check_computable(const ModelSpec& spec) {
  if (spec.layers.empty()) return invalid("the model has no layers");
  for (std::size_t i = 0; i < spec.layers.size(); ++i) TANDEM_TRY(check_layer(spec, i));
  for (std::size_t i = 0; i < spec.rotary.size(); ++i) {
    TANDEM_TRY(check_rotary(spec.rotary[i], spec.rotary_head_dim(i)));
  }
  if (std::ranges::count_if(
          spec.rotary, [](const RotarySpec& rotary) { return rotary.original_length() > 0; }) > 1) {
    return invalid("Tandem does not compute two rotary embeddings that depend on lengths yet");
  }
  return {};
}

std::int64_t ModelSpec::rotary_head_dim(std::size_t index) const {
  const auto used = std::ranges::find(
      layers, index, [](const LayerSpec& layer) { return layer.attention.rotary; });
  return used == layers.end() ? attention().head_dim : used->attention.head_dim;
}

std::int64_t ModelSpec::all_keys() const {
  std::int64_t columns = 0;
  for (const LayerSpec& layer : layers) columns += layer.attention.kv_size();
  return columns;
}

bool ModelSpec::has_equal_layers() const {
  return std::ranges::all_of(layers, [&](const LayerSpec& layer) {
    return layer.attention.q_size() == q_size() && layer.attention.kv_size() == kv_size() &&
           layer.mlp.size == mlp().size;
  });
}

std::int64_t ModelSpec::last_layer_with_keys() const {
  std::int64_t last = num_layers() - 1;
  while (last > 0 && !layer(last).attention.has_keys()) --last;
  return last;
}

RotaryLengths ModelSpec::rotary_lengths() const {
  for (const RotarySpec& each : rotary) {
    if (each.original_length() > 0) return {each.original_length(), each.longrope.has_value()};
  }
  return {};
}

ModelSpec decoder_of(const DecoderShape& shape) {
  ModelSpec spec;
  spec.hidden_size = shape.hidden_size;
  spec.vocab_size = shape.vocab_size;
  spec.max_position_embeddings = shape.max_position_embeddings;
  if (const auto& dynamic = shape.rotary.dynamic) {  // `original` is the context before scaling
    spec.max_position_embeddings = std::max(
        spec.max_position_embeddings,
        static_cast<std::int64_t>(static_cast<double>(dynamic->original) * dynamic->factor));
  }
  spec.rms_norm_eps = shape.rms_norm_eps;
  spec.tie_word_embeddings = shape.tie_word_embeddings;
  spec.rotary = {shape.rotary};
  spec.eos_token_ids = shape.eos_token_ids;
  LayerSpec layer;
  layer.attention.heads = shape.num_heads;
  layer.attention.kv_heads = shape.num_kv_heads;
  layer.attention.head_dim = shape.head_dim;
  layer.attention.qkv_bias = shape.qkv_bias;
  layer.attention.o_bias = shape.o_bias;
  layer.attention.qk_norm = shape.qk_norm;
  layer.mlp.size = shape.ffn_size;
  layer.mlp.activation = shape.activation;
  layer.mlp.bias = shape.mlp_bias;
  spec.modules = ModuleTable(decoder_modules());
  spec.layers.assign(static_cast<std::size_t>(shape.num_layers), layer);
  return spec;
}

void add_layer_inputs(std::int64_t size, ModelSpec& spec) {
  for (LayerSpec& layer : spec.layers) layer.input.size = size;
  spec.layers.front().input.makes_parts = true;
  std::vector<AdaptedModule> rows(spec.modules.begin(), spec.modules.end());
  for (AdaptedModule& row : layer_input_modules()) rows.push_back(std::move(row));
  std::ranges::stable_sort(rows, {}, &AdaptedModule::site);
  spec.modules = ModuleTable(std::move(rows));
}

}  // namespace tandem
