#include "engine/profile/layer_load.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

ModelSpec llama_2_7b() {
  DecoderShape shape;
  shape.hidden_size = 4096;
  shape.num_layers = 2;
  shape.num_heads = shape.num_kv_heads = 32;
  shape.head_dim = 128;
  shape.ffn_size = 11008;
  shape.vocab_size = 64;
  return decoder_of(shape);
}

TEST(LayerLoad, OfRank64OnQkvIsThreeMebibytesAndOneSite) {
  const LayerLoad load = layer_load(llama_2_7b(), DType::bf16, 64, {"q_proj", "k_proj", "v_proj"});
  EXPECT_EQ(load.a_bytes, 3 * 64 * 4096 * 2);
  EXPECT_EQ(load.b_bytes, 3 * 64 * 4096 * 2);
  EXPECT_EQ(load.modules, 3);
  EXPECT_EQ(load.sites, 1);
  EXPECT_EQ(load.ranks, 192);
  EXPECT_EQ(load.in_elements, 4096);
  EXPECT_EQ(load.out_elements, 3 * 4096);
}

TEST(LayerLoad, AgreesWithAnAdapterOfThoseModules) {
  const ModelSpec config = llama_2_7b();
  const std::vector<std::vector<std::string_view>> sets = {
      {"q_proj"},
      {"o_proj", "down_proj"},
      {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}};
  for (const std::int32_t rank : {1, 5, 8}) {
    for (const std::vector<std::string_view>& modules : sets) {
      const Adapter adapter = make_dummy_adapter(config, DType::bf16, rank, modules, 1);
      for (const std::int32_t devices : {1, 2, 4}) {
        for (const LayerLoad& load : layer_loads(config, adapter, devices)) {
          EXPECT_EQ(load, layer_load(config, DType::bf16, rank, modules, devices));
        }
      }
    }
  }
}

TEST(LayerLoad, OfADeviceAmongSeveralIsWhatTravelsThere) {
  const ModelSpec config = llama_2_7b();
  const Adapter adapter = make_dummy_adapter(
      config, DType::bf16, 8, {"q_proj", "k_proj", "v_proj", "o_proj", "down_proj"}, 1);
  const LayerLoad alone = layer_loads(config, adapter).front();
  const LayerLoad shared = layer_loads(config, adapter, 4).front();
  // All of A of q, k and v, and a quarter of the columns of o's and down's A; B is the other way
  // round.
  EXPECT_EQ(shared.a_bytes, 2 * 8 * (3 * 4096 + 4096 / 4 + 11008 / 4));
  EXPECT_EQ(shared.b_bytes, 2 * 8 * (3 * 4096 / 4 + 2 * 4096));
  EXPECT_EQ(shared.a_bytes + shared.a_elsewhere, alone.a_bytes);
  EXPECT_EQ(shared.b_bytes + shared.b_elsewhere, alone.b_bytes);
  EXPECT_EQ(shared.in_elements, alone.in_elements);
  EXPECT_EQ(CostModel().handover(shared, 8, 4, false).stream_s,
            CostModel().handover(alone, 8, 4, false).stream_s);
}

}  // namespace
}  // namespace tandem
