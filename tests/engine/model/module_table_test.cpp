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

TEST(ModuleTable, OfADecoderHasSevenModulesAtFourSites) {
  const ModelSpec spec = small_model(2);
  const ModuleTable& table = spec.modules;
  EXPECT_EQ(table.size(), 7U);
  EXPECT_EQ(table.num_sites(), 4U);
  EXPECT_THAT(names_at(table, Site::qkv), ElementsAre("q_proj", "k_proj", "v_proj"));
  EXPECT_THAT(names_at(table, Site::o), ElementsAre("o_proj"));
  EXPECT_THAT(names_at(table, Site::gate_up), ElementsAre("gate_proj", "up_proj"));
  EXPECT_THAT(names_at(table, Site::down), ElementsAre("down_proj"));
  EXPECT_TRUE(table.by_rows(Site::o) && table.by_rows(Site::down));
  EXPECT_FALSE(table.by_rows(Site::qkv) || table.by_rows(Site::gate_up));
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

TEST(ModuleTableDeathTest, RefusesSitesOutOfOrderAndModulesThatNoKernelHasRoomFor) {
  const AdaptedModule q{"self_attn.q_proj", Site::qkv};
  const AdaptedModule o{"self_attn.o_proj", Site::o};
  EXPECT_DEATH(ModuleTable({o, q}), "2 modules");
  EXPECT_DEATH(ModuleTable({q, q, q, q}), "4 modules at site 0");
  EXPECT_DEATH(ModuleTable({q}).row("o_proj"), "no module o_proj");
}

}  // namespace
}  // namespace tandem::test
