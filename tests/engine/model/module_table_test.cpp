#include "engine/model/spec/module_table.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "engine/model/spec/model_spec.h"
#include "tests/support/test_seed.h"
#include "tests/support/uneven_model.h"

namespace tandem::test {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names_at(const ModuleTable& table, Site site) {
  std::vector<std::string> names;
  for (std::size_t m = table.first_of(site); m < table.end_of(site); ++m) {
    names.emplace_back(table[m].name());
  }
  return names;
}

std::vector<std::string> replaced_at(const ModelSpec& spec, std::int64_t layer) {
  std::vector<std::string> names;
  for (std::size_t m = 0; m < spec.modules.size(); ++m) {
    const AdaptedModule& row = spec.modules[m];
    if (row.is_lora() || is_vocabulary(row.site) || row.by_token) continue;
    if (module_out(spec, layer, m) > 0) names.emplace_back(row.path_in(spec.names));
  }
  return names;
}

TEST(ModuleTable, HasWhatMayReplaceTheProductsBiasesAndNormsOfALayer) {
  ModelSpec spec = small_model(2);
  const std::vector<std::string> products = {
      "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
      "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
  std::vector<std::string> plain = products;
  plain.insert(plain.end(), {"input_layernorm", "post_attention_layernorm"});
  EXPECT_EQ(replaced_at(spec, 0), plain);
  plain.emplace_back("norm");  // counts as the last layer's
  EXPECT_EQ(replaced_at(spec, 1), plain);
  for (LayerSpec& layer : spec.layers) {
    layer.norms = NormPlace::behind;
    layer.attention.qk_norm = QkNorm::head;
    layer.attention.qkv_bias = true;
  }
  std::vector<std::string> others = products;
  others.insert(others.end(), products.begin(), products.begin() + 3);  // biases
  others.insert(others.end(), {"self_attn.q_norm", "self_attn.k_norm", "post_attention_layernorm",
                               "post_feedforward_layernorm"});
  EXPECT_EQ(replaced_at(spec, 0), others);
  const std::size_t q_norm = spec.modules.first_of(Site::qk_norm);
  EXPECT_EQ(module_out(spec, 0, q_norm), spec.attention().head_dim);
  EXPECT_TRUE(spec.modules[q_norm].is_vector);
  const std::size_t o = spec.modules.first_of(whole_of(Site::o));
  EXPECT_EQ(spec.modules[o].width(spec, spec.layer(0)), spec.q_size());
  EXPECT_EQ(module_out(spec, 0, o), spec.hidden_size);
  EXPECT_EQ(module_in(spec, 0, o), 0);
  EXPECT_EQ(spec.modules.num_of(Site::qkv_bias), 3U);
}

TEST(ModuleTable, OfADecoderHasSevenModulesOfEachLayerTheEmbeddingAndTheHead) {
  const ModelSpec spec = small_model(2);
  const ModuleTable& table = spec.modules;
  EXPECT_EQ(table.size(), 39U);
  EXPECT_EQ(table.num_sites(), 4U);
  const std::size_t head = table.row("lm_head");
  EXPECT_EQ(table[head].place, ModulePlace::top);
  EXPECT_EQ(module_out(spec, 0, head), 0);
  EXPECT_EQ(module_out(spec, 1, head), spec.vocab_size);
  EXPECT_EQ(module_in(spec, 1, head), spec.hidden_size);
  const std::size_t embedding = table.row("embed_tokens");
  EXPECT_EQ(table[embedding].place, ModulePlace::root);
  EXPECT_EQ(module_in(spec, 0, embedding), spec.vocab_size);
  EXPECT_EQ(module_out(spec, 0, embedding), spec.hidden_size);
  EXPECT_EQ(module_out(spec, 1, embedding), 0);
  for (const Site site : {Site::whole_embedding, Site::whole_head}) {
    const AdaptedModule& whole = table[table.first_of(site)];
    EXPECT_TRUE(whole.is_whole());
    EXPECT_FALSE(takes_offers(site));
    EXPECT_EQ(whole.width(spec, spec.layer(0)), spec.hidden_size);
  }
  for (const Site site : {Site::embedding_tokens, Site::head_tokens}) {
    const std::size_t m = table.first_of(site);
    EXPECT_TRUE(table[m].by_token);
    EXPECT_FALSE(table[m].is_lora());
    EXPECT_EQ(module_in(spec, 0, m), spec.hidden_size);
    EXPECT_EQ(module_out(spec, 0, m), site == Site::embedding_tokens ? 1 : 0);
    EXPECT_EQ(module_out(spec, 1, m), site == Site::head_tokens ? 1 : 0);
  }
  EXPECT_THAT(names_at(table, Site::qkv), ElementsAre("q_proj", "k_proj", "v_proj"));
  EXPECT_THAT(names_at(table, Site::o), ElementsAre("o_proj"));
  EXPECT_THAT(names_at(table, Site::gate_up), ElementsAre("gate_proj", "up_proj"));
  EXPECT_THAT(names_at(table, Site::down), ElementsAre("down_proj"));
  for (const Site site : {Site::o, Site::down}) EXPECT_EQ(table.cut(site), ModuleCut::rows);
  for (const Site site : {Site::qkv, Site::gate_up}) EXPECT_EQ(table.cut(site), ModuleCut::columns);
  EXPECT_EQ(table.find("up_proj"), 5U);
  EXPECT_EQ(table.find("proj"), std::nullopt);
  EXPECT_EQ(module_in(spec, 1, table.row("o_proj")), spec.q_size());
  EXPECT_EQ(module_out(spec, 1, table.row("k_proj")), spec.kv_size());
}

TEST(ModuleTable, KnowsWhichLayersHaveAModuleAndHowWideItIs) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  const ModelSpec spec = uneven_model(12, random);
  const std::size_t in_proj = spec.modules.row("in_proj");
  const std::size_t v = spec.modules.row("v_proj");
  EXPECT_EQ(spec.modules.num_sites(), 5U);
  for (std::int64_t l = 0; l < spec.num_layers(); ++l) {
    const LayerSpec& layer = spec.layer(l);
    EXPECT_EQ(module_out(spec, l, in_proj) > 0, layer.attention.window > 0);
    EXPECT_EQ(module_out(spec, l, v) > 0, layer.attention.window == 0);
    EXPECT_EQ(module_in(spec, l, spec.modules.row("down_proj")), layer.mlp.size);
  }
}

TEST(ModuleTable, HasInputsByLayerWholeAndTheProjectionOfAllOfThemInTheFirstLayer) {
  const ModelSpec spec = small_model_with_layer_inputs();
  const std::size_t all = spec.modules.row("per_layer_model_projection");
  const std::size_t gate = spec.modules.row("per_layer_input_gate");
  const std::size_t projection = spec.modules.row("per_layer_projection");
  EXPECT_EQ(spec.modules.num_sites(), 7U);
  EXPECT_EQ(spec.modules[all].place, ModulePlace::root);
  for (std::int64_t l = 0; l < spec.num_layers(); ++l) {
    EXPECT_EQ(module_out(spec, l, all), l == 0 ? 5 * 24 : 0);
    EXPECT_EQ(module_out(spec, l, gate), 24);
    EXPECT_EQ(module_in(spec, l, projection), 24);
    EXPECT_EQ(module_out(spec, l, spec.modules.row("k_proj")), l < 3 ? spec.kv_size() : 0);
  }
  for (const Site site : {Site::layer_inputs, Site::input_gate, Site::input_projection}) {
    EXPECT_EQ(spec.modules.cut(site), ModuleCut::none);
  }
}

TEST(ModelSpec, WithKeysOfLaterLayersOrOfOtherShapesIsRefused) {
  const ModelSpec spec = small_model_with_layer_inputs();
  EXPECT_TRUE(check_computable(spec).ok()) << check_computable(spec).message();
  const auto refused = [&](auto&& change) {
    ModelSpec changed = spec;
    change(changed.layers);
    return check_computable(changed).message();
  };
  const std::string other =
      "Tandem does not compute keys and values of a later layer, or of one "
      "of another shape yet";
  EXPECT_EQ(refused([](auto& layers) { layers[1].attention.keys_of = 3; }), other);
  EXPECT_EQ(refused([](auto& layers) { layers[3].attention.keys_of = 2; }), other);  // no window
  EXPECT_EQ(refused([](auto& layers) { layers[4].attention.kv_heads = 1; }), other);
  EXPECT_EQ(refused([](auto& layers) { layers[4].attention.keys_of = 3; }), other);
  EXPECT_EQ(refused([](auto& layers) {
              for (LayerSpec& layer : layers) layer.norms = NormPlace::before;
            }).substr(0, 45),
            "Tandem does not compute scales of a layer wit");
}

TEST(ModuleTableDeathTest, RefusesSitesOutOfOrderAndModulesThatNoKernelHasRoomFor) {
  const AdaptedModule q{"self_attn.q_proj", Site::qkv};
  const AdaptedModule o{"self_attn.o_proj", Site::o};
  EXPECT_DEATH(ModuleTable({o, q}), "2 modules");
  EXPECT_DEATH(ModuleTable({q, q, q, q}), "4 modules at site 0");
  EXPECT_DEATH(ModuleTable({q}).row("o_proj"), "no module o_proj");
}

}  // namespace
}  // namespace tandem::test
