#include "engine/model/spec/decoder_modules.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/model/spec/model_spec.h"

namespace tandem {
namespace {

using Model = const ModelSpec&;
using Layer = const LayerSpec&;
using Columns = AdaptedModule::Columns;

std::int64_t none(Model, Layer) {
  return 0;
}
std::int64_t hidden(Model model, Layer) {
  return model.hidden_size;
}
std::int64_t q(Model, Layer layer) {
  return layer.attention.q_size();
}
std::int64_t kv(Model, Layer layer) {
  return layer.attention.kv_size();
}
std::int64_t v(Model, Layer layer) {
  return layer.attention.keys_as_values ? 0 : layer.attention.kv_size();
}
std::int64_t ffn(Model, Layer layer) {
  return layer.mlp.size;
}
std::int64_t part(Model, Layer layer) {
  return layer.input.size;
}
std::int64_t hidden_of_part(Model model, Layer layer) {
  return layer.input.size > 0 ? model.hidden_size : 0;
}
std::int64_t parts(Model model, Layer layer) {
  return layer.input.makes_parts ? model.num_layers() * layer.input.size : 0;
}
bool is_first(Model model, Layer layer) {
  return &layer == &model.layers.front();
}
bool is_last(Model model, Layer layer) {
  return &layer == &model.layers.back();
}

std::vector<AdaptedModule> projections() {
  return {{"self_attn.q_proj", Site::qkv, hidden, q},
          {"self_attn.k_proj", Site::qkv, hidden, kv},
          {"self_attn.v_proj", Site::qkv, hidden, v},
          {"self_attn.o_proj", Site::o, q, hidden, {}, ModuleCut::rows},
          {"mlp.gate_proj", Site::gate_up, hidden, ffn},
          {"mlp.up_proj", Site::gate_up, hidden, ffn},
          {"mlp.down_proj", Site::down, ffn, hidden, {}, ModuleCut::rows}};
}

// Whole matrices in place of those of the products, which are the same rows for every model: the
// digests of adapters count modules from the end of the table (AdapterDigest).
void add_whole_products(std::vector<AdaptedModule>& rows) {
  std::vector<AdaptedModule> products = projections();
  for (AdaptedModule& row : layer_input_modules()) products.push_back(std::move(row));
  for (AdaptedModule& row : products) {
    row.width = std::exchange(row.in, none);
    row.site = whole_of(row.site);
    rows.push_back(std::move(row));
  }
}

// Sums over shards get their bias from one of them.
void add_biases(std::vector<AdaptedModule>& rows) {
  const Columns of_q = [](Model model, Layer layer) {
    return layer.attention.qkv_bias ? q(model, layer) : 0;
  };
  const Columns of_k = [](Model model, Layer layer) {
    return layer.attention.qkv_bias ? kv(model, layer) : 0;
  };
  const Columns of_v = [](Model model, Layer layer) {
    return layer.attention.qkv_bias ? v(model, layer) : 0;
  };
  const Columns of_o = [](Model model, Layer layer) {
    return layer.attention.o_bias ? model.hidden_size : 0;
  };
  const Columns of_ffn = [](Model, Layer layer) { return layer.mlp.bias ? layer.mlp.size : 0; };
  const Columns of_down = [](Model model, Layer layer) {
    return layer.mlp.bias ? model.hidden_size : 0;
  };
  const std::vector<Columns> columns = {of_q, of_k, of_v, of_o, of_ffn, of_ffn, of_down};
  std::vector<AdaptedModule> products = projections();
  for (std::size_t i = 0; i < products.size(); ++i) {
    AdaptedModule& row = rows.emplace_back(std::move(products[i]));
    row.site = bias_of(row.site);
    row.in = none;
    row.out = columns[i];
    row.is_vector = true;
    if (row.cut == ModuleCut::rows) row.cut = ModuleCut::none;
  }
}

// Norms over all heads are cut with the heads; the others are whole on every shard.
void add_norms(std::vector<AdaptedModule>& rows) {
  const auto add = [&](Site site, std::string_view TensorNames::*named, Columns out) {
    AdaptedModule& row = rows.emplace_back();
    row.site = site;
    row.in = none;
    row.out = out;
    row.is_vector = true;
    row.named = named;
    row.cut = site == Site::qk_norm ? ModuleCut::columns : ModuleCut::none;
  };
  add(Site::attention_norm, &TensorNames::attention_norm, [](Model model, Layer layer) {
    return layer.norms == NormPlace::behind ? 0 : model.hidden_size;
  });
  add(Site::qk_norm, &TensorNames::q_norm, [](Model model, Layer layer) {
    return layer.attention.qk_norm == QkNorm::none   ? 0
           : layer.attention.qk_norm == QkNorm::head ? layer.attention.head_dim
                                                     : q(model, layer);
  });
  add(Site::qk_norm, &TensorNames::k_norm, [](Model model, Layer layer) {
    return layer.attention.qk_norm == QkNorm::none || !layer.attention.has_keys() ? 0
           : layer.attention.qk_norm == QkNorm::head ? layer.attention.head_dim
                                                     : kv(model, layer);
  });
  const Columns behind = [](Model model, Layer layer) {
    return layer.norms == NormPlace::before ? 0 : model.hidden_size;
  };
  add(Site::attention_out_norm, &TensorNames::attention_out_norm, behind);
  add(Site::mlp_norm, &TensorNames::mlp_norm, [](Model model, Layer layer) {
    return layer.norms == NormPlace::behind || layer.parallel ? 0 : model.hidden_size;
  });
  add(Site::mlp_out_norm, &TensorNames::mlp_out_norm, behind);
  add(Site::input_out_norm, &TensorNames::input_out_norm, hidden_of_part);
  add(Site::layer_input_norm, &TensorNames::layer_input_norm,
      [](Model, Layer layer) { return layer.input.makes_parts ? layer.input.size : 0; });
  rows.back().place = ModulePlace::root;
  add(Site::final_norm, &TensorNames::final_norm,
      [](Model model, Layer layer) { return is_last(model, layer) ? model.hidden_size : 0; });
  rows.back().place = ModulePlace::root;
}

// The embedding and the head, each whole, by token and as LoRA. Shards gather rows and logits
// before adapters change them, so that each shard has all of these.
void add_outer_modules(std::vector<AdaptedModule>& rows) {
  const Columns first_hidden = [](Model model, Layer layer) {
    return is_first(model, layer) ? model.hidden_size : 0;
  };
  const Columns first_vocab = [](Model model, Layer layer) {
    return is_first(model, layer) ? model.vocab_size : 0;
  };
  const Columns first_one = [](Model model, Layer layer) {
    return std::int64_t{is_first(model, layer)};
  };
  const Columns last_one = [](Model model, Layer layer) {
    return std::int64_t{model.writes_text && is_last(model, layer)};
  };
  const Columns last_vocab = [](Model model, Layer layer) {
    return model.writes_text && is_last(model, layer) ? model.vocab_size : 0;
  };
  const auto add = [&](Site site, Columns in, Columns out, Columns width) {
    AdaptedModule& row = rows.emplace_back();
    const bool is_head =
        site == Site::head || site == Site::head_tokens || site == Site::whole_head;
    row.path = is_head ? "lm_head" : "embed_tokens";
    row.place = is_head ? ModulePlace::top : ModulePlace::root;
    row.cut = ModuleCut::none;
    row.site = site;
    row.in = in;
    row.out = out;
    row.width = width;
    row.by_token = site == Site::embedding_tokens || site == Site::head_tokens;
  };
  add(Site::whole_embedding, none, first_vocab, hidden);
  add(Site::whole_head, none, last_vocab, hidden);
  add(Site::embedding_tokens, hidden, first_one, nullptr);
  add(Site::head_tokens, hidden, last_one, nullptr);
  add(Site::embedding, first_vocab, first_hidden, nullptr);
  add(Site::head, hidden, last_vocab, nullptr);
}

}  // namespace

std::vector<AdaptedModule> decoder_modules() {
  std::vector<AdaptedModule> rows = projections();
  add_whole_products(rows);
  add_biases(rows);
  add_norms(rows);
  add_outer_modules(rows);
  return rows;
}

std::vector<AdaptedModule> layer_input_modules() {
  std::vector<AdaptedModule> rows = {
      {"per_layer_model_projection", Site::layer_inputs, hidden, parts, {}, ModuleCut::none},
      {"per_layer_input_gate", Site::input_gate, hidden, part, {}, ModuleCut::none},
      {"per_layer_projection", Site::input_projection, part, hidden_of_part, {}, ModuleCut::none}};
  rows.front().place = ModulePlace::root;
  return rows;
}

}  // namespace tandem
