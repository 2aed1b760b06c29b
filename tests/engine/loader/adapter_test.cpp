#include "engine/loader/adapter.h"

#include <gmock/gmock.h>

#include <cmath>

#include "engine/loader/adapter_layout.h"
#include "engine/loader/peft/peft_config.h"
#include "engine/loader/peft/peft_reader.h"
#include "engine/loader/safetensors/safetensors.h"
#include "engine/model/families/registry.h"

namespace tandem {
namespace {

std::vector<float> values(const Adapter& adapter, std::uint64_t offset, std::size_t count) {
  std::vector<float> result(count);
  convert(adapter.dtype, adapter.bytes.get() + offset, DType::f32, result.data(), count);
  return result;
}

std::vector<float> stored(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* const info = file.find(name);
  EXPECT_NE(info, nullptr) << name;
  std::vector<float> result((info->end - info->begin) / size_of(*info->dtype));
  convert(*info->dtype, file.bytes(*info).data(), DType::f32, result.data(), result.size());
  return result;
}

float round_to(DType dtype, float value) {
  std::uint32_t bits = 0;
  convert(DType::f32, &value, dtype, &bits, 1);
  convert(dtype, &bits, DType::f32, &value, 1);
  return value;
}

struct Golden {
  const char* model;
  const char* name;
  int max_rank;
  std::vector<std::string> modules;
};

const std::vector<std::string> kAll = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                       "gate_proj", "up_proj", "down_proj"};
const std::vector<std::string> kQkvDown = {"q_proj", "k_proj", "v_proj", "down_proj"};

TEST(Adapter, LoadsEveryShippedOne) {
  const std::vector<Golden> cases = {
      {"demo-llama", "license", 8, {"q_proj", "v_proj"}},
      {"demo-llama", "python", 16, {"q_proj", "k_proj", "v_proj", "o_proj"}},
      {"demo-llama", "cheader", 32, kAll},
      {"demo-llama", "docstring", 64, {"q_proj", "k_proj", "v_proj"}},
      {"tiny-llama", "layer1", 6, {"gate_proj", "up_proj"}},
      {"tiny-llama", "r4", 4, {"q_proj", "v_proj"}},
      {"tiny-llama", "r8", 8, kAll},
      {"tiny-llama", "r16", 16, kQkvDown},
      {"tiny-mistral", "r4", 4, {"q_proj", "v_proj"}},
      {"tiny-mistral", "r8", 8, kAll},
      {"tiny-mistral", "r16", 16, kQkvDown},
      {"tiny-qwen2", "r4", 4, {"q_proj", "v_proj"}},
      {"tiny-qwen2", "r8", 8, kAll},
      {"tiny-qwen2", "r16", 16, kQkvDown},
      {"tiny-qwen3", "r4", 4, {"q_proj", "v_proj"}},
      {"tiny-qwen3", "r8", 8, kAll},
      {"tiny-qwen3", "r16", 16, kQkvDown},
  };
  for (const Golden& golden : cases) {
    const std::filesystem::path model = std::filesystem::path("data") / golden.model;
    const ModelSpec config = load_model_spec(model).value();
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const auto adapter = load_peft_adapter(model / "adapters" / golden.name, config, dtype);
      ASSERT_TRUE(adapter) << adapter.status().message();
      EXPECT_EQ(adapter->max_rank, golden.max_rank) << golden.model << golden.name;
      EXPECT_EQ(adapter->modules, golden.modules);
      EXPECT_EQ(adapter->base_model, golden.model);
      EXPECT_EQ(adapter->dtype, dtype);
      EXPECT_EQ(adapter->digest.size(), 32U);
      EXPECT_EQ(adapter->layers.size(), static_cast<std::size_t>(config.num_layers()));
    }
  }
}

TEST(Adapter, HoldsTheFilesNumbersWithTheScaleInB) {
  const std::filesystem::path dir = "data/tiny-llama/adapters/r16";
  const ModelSpec config = load_model_spec("data/tiny-llama").value();
  const auto file = SafetensorsFile::open(dir / "adapter_model.safetensors");
  // The values in adapter_config.json are: r 16, alpha 32; rank_pattern down 4, layer 0's q 8;
  // alpha_pattern layer 1's k 4, v 64.
  const auto rank_of = [](std::size_t layer, std::string_view m) {
    if (m == "down_proj") return 4;
    return m == "q_proj" && layer == 0 ? 8 : 16;
  };
  const auto alpha_of = [](std::size_t layer, std::string_view m) {
    if (m == "v_proj") return 64.0F;
    return m == "k_proj" && layer == 1 ? 4.0F : 32.0F;
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Adapter adapter = load_peft_adapter(dir, config, dtype).value();
    for (std::size_t layer = 0; layer < 2; ++layer) {
      for (const std::string& name : kQkvDown) {
        const std::size_t module = config.modules.row(name);
        const auto number = static_cast<std::int64_t>(layer);
        const AdapterMatrix& m = adapter.layers[layer][module];
        ASSERT_EQ(m.rank, rank_of(layer, name));
        const std::string stem =
            fmt::format("base_model.model.{}.", module_path(config, number, module));
        const auto rank = static_cast<std::size_t>(m.rank);
        const auto in = static_cast<std::size_t>(module_in(config, number, module));
        const auto out = static_cast<std::size_t>(module_out(config, number, module));
        EXPECT_EQ(values(adapter, m.a_offset, rank * in), stored(*file, stem + "lora_A.weight"));
        const std::vector<float> b = stored(*file, stem + "lora_B.weight");
        const auto stride = static_cast<std::size_t>(m.b_stride);
        const std::vector<float> got = values(adapter, m.b_offset, out * stride);
        const float scale = alpha_of(layer, name) / static_cast<float>(rank);
        for (std::size_t o = 0; o < out; ++o) {
          for (std::size_t r = 0; r < stride; ++r) {
            const float want = r < rank ? round_to(dtype, b[o * rank + r] * scale) : 0.0F;
            ASSERT_EQ(got[o * stride + r], want);
          }
        }
      }
    }
    EXPECT_EQ(adapter.layers[0][config.modules.row("o_proj")].rank, 0);
  }
}

TEST(Adapter, DividesByTheRootOfTheRankForRsLora) {
  const std::filesystem::path dir = "data/demo-llama/adapters/docstring";
  const ModelSpec config = load_model_spec("data/demo-llama").value();
  const Adapter adapter = load_peft_adapter(dir, config, DType::f32).value();
  const auto file = SafetensorsFile::open(dir / "adapter_model.safetensors");
  const auto b = stored(*file, "base_model.model.model.layers.3.self_attn.q_proj.lora_B.weight");
  const auto got =
      values(adapter, adapter.layers[3][config.modules.row("q_proj")].b_offset, b.size());
  for (std::size_t i = 0; i < b.size(); ++i) ASSERT_EQ(got[i], b[i] * 2);  // 16 / sqrt(64)
}

// For each projection the layer with the largest sum counts; layers may have different ranks.
TEST(Adapter, AddsUpTheRanksOfEachProjection) {
  DecoderShape shape;
  shape.hidden_size = 16;
  shape.num_layers = 2;
  shape.num_heads = shape.num_kv_heads = 2;
  shape.head_dim = 8;
  shape.ffn_size = 24;
  const ModelSpec config = decoder_of(shape);
  Adapter adapter;
  adapter.layers = AdapterLayers(2, config.modules.size());
  append_matrix(adapter, config, 0, config.modules.row("q_proj"), 8);
  append_matrix(adapter, config, 0, config.modules.row("v_proj"), 4);
  append_matrix(adapter, config, 0, config.modules.row("down_proj"), 2);
  append_matrix(adapter, config, 1, config.modules.row("k_proj"), 16);
  append_matrix(adapter, config, 1, config.modules.row("gate_proj"), 3);
  append_matrix(adapter, config, 1, config.modules.row("up_proj"), 5);
  EXPECT_EQ(adapter.site_ranks, (SiteRanks{16, 0, 8, 2}));
  EXPECT_EQ(adapter.max_rank, 16);
}

TEST(Adapter, LiesLayerByLayerModuleByModuleAligned) {
  const ModelSpec config = load_model_spec("data/demo-llama").value();
  const Adapter adapter =
      load_peft_adapter("data/demo-llama/adapters/cheader", config, DType::bf16).value();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(adapter.bytes.get()) % 64, 0U);
  std::uint64_t end = 0;
  for (std::size_t layer = 0; layer < adapter.layers.size(); ++layer) {
    for (std::size_t module = 0; module < config.modules.size(); ++module) {
      const AdapterMatrix& m = adapter.layers[layer][module];
      if (!takes_offers(config.modules[module].site)) continue;  // it has none of these
      EXPECT_GE(m.a_offset, end);
      EXPECT_LT(m.a_offset, end + 64);
      EXPECT_GT(m.b_offset, m.a_offset);
      EXPECT_EQ(m.a_offset % 64, 0U);
      EXPECT_EQ(m.b_offset % 64, 0U);
      end = m.b_offset + static_cast<std::uint64_t>(m.b_stride) * 2;
      const std::int64_t out = module_out(config, static_cast<std::int64_t>(layer), module);
      end = m.b_offset + static_cast<std::uint64_t>(m.b_stride * out) * 2;
    }
  }
  EXPECT_LE(end, adapter.num_bytes);
  EXPECT_LT(adapter.num_bytes, end + 64);
}

}  // namespace
}  // namespace tandem
