// A random model whose layers differ and whose table of modules is its own: what no family here has
// yet, and adapters, their readers and jobs must serve without a change.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "engine/model/spec/model_spec.h"
#include "tests/support/small_model.h"

namespace tandem::test {

// q_proj to down_proj as in a decoder, but of widths of each layer's own; before them "ssm.in_proj"
// at a site of their own, in layers with a window alone, which have no v_proj. The model can be
// shared by two devices.
inline ModelSpec uneven_model(std::int64_t num_layers, std::mt19937& random) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  ModelSpec spec = small_model(num_layers);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.kv_heads = 2 * pick(1, 2);
    layer.attention.heads = layer.attention.kv_heads * pick(1, 3);
    layer.mlp.size = 16 * pick(1, 9);
    layer.attention.window = pick(0, 1);
  }
  using Model = const ModelSpec&;
  using Layer = const LayerSpec&;
  std::vector<AdaptedModule> rows(spec.modules.begin(), spec.modules.end());
  for (AdaptedModule& row : rows) {
    if (takes_offers(row.site)) row.site = static_cast<Site>(static_cast<int>(row.site) + 1);
    if (row.name() != "v_proj") continue;
    row.out = [](Model, Layer layer) {
      return layer.attention.window == 0 ? layer.attention.kv_size() : 0;
    };
  }
  rows.insert(
      rows.begin(),
      {"ssm.in_proj", static_cast<Site>(0), [](Model model, Layer) { return model.hidden_size; },
       [](Model, Layer layer) { return layer.attention.window * layer.mlp.size; }});
  spec.modules = ModuleTable(std::move(rows));
  return spec;
}

}  // namespace tandem::test
