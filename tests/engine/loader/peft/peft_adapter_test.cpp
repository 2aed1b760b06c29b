// Loading of valid adapters: modules, ranks, scales and digest.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "base/lora_rows.h"
#include "engine/model/spec/spread.h"
#include "tests/engine/loader/peft/peft_adapter_fixture.h"
#include "tests/support/peft_writer.h"
#include "tests/support/test_seed.h"
#include "tests/support/uneven_model.h"

namespace tandem::peft_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(PeftAdapter, LoadsAnyRankFrom1To2048) {
  for (const int rank : {1, 3, 5, 12, 40, 512, 2048}) {
    for (const DType stored : {DType::f32, DType::f16, DType::bf16}) {
      tensors_.clear();
      for (int layer = 0; layer < 3; ++layer) add(layer, "down_proj", rank, stored);
      write(lora({"down_proj"}, rank));
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const Result<Adapter> adapter = load_as(dtype);
        ASSERT_TRUE(adapter) << adapter.status().message();
        const AdapterMatrix& m = adapter->layers[2][base().modules.row("down_proj")];
        EXPECT_EQ(m.rank, rank);
        EXPECT_EQ(adapter->max_rank, rank);
        const int granule = 16 / static_cast<int>(size_of(dtype));
        EXPECT_EQ(m.b_stride, (rank + granule - 1) / granule * granule);
        const auto& b =
            tensors_["base_model.model.model.layers.2.mlp.down_proj.lora_B.weight"].values;
        std::vector<float> got(static_cast<std::size_t>(20 * m.b_stride));
        convert(dtype, adapter->bytes.get() + m.b_offset, DType::f32, got.data(), got.size());
        for (int row = 0; row < 20; ++row) {
          for (int col = 0; col < m.b_stride; ++col) {
            float want = 0;
            if (col < rank) {
              want = b[static_cast<std::size_t>(row * rank + col)];
              want *= 8.0F / static_cast<float>(rank);
            }
            const float tolerance = dtype == DType::f32 ? 0 : std::fabs(want) / 256;
            ASSERT_NEAR(got[static_cast<std::size_t>(row * m.b_stride + col)], want, tolerance);
          }
        }
      }
    }
  }
}

TEST_F(PeftAdapter, PutsTheScaledBiasBehindEachRowOfB) {
  constexpr int kRank = 5;
  for (const DType stored : {DType::f32, DType::bf16}) {
    tensors_.clear();
    add(1, "down_proj", kRank, stored);
    const std::string b = "base_model.model.model.layers.1.mlp.down_proj.lora_B";
    tensors_[b + ".bias"] = {stored, {20}, {}};
    for (int i = 0; i < 20; ++i) tensors_[b + ".bias"].values.push_back(static_cast<float>(i - 7));
    Json config = lora({"down_proj"}, kRank);
    config["lora_bias"] = true;
    config["layers_to_transform"] = 1;
    write(config);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Result<Adapter> adapter = load_as(dtype);
      ASSERT_TRUE(adapter) << adapter.status().message();
      EXPECT_TRUE(adapter->has_bias);
      const AdapterMatrix& m = adapter->layers[1][base().modules.row("down_proj")];
      EXPECT_TRUE(m.has_bias);
      EXPECT_EQ(m.b_stride, lora_row(kRank, true, dtype));
      std::vector<float> got(static_cast<std::size_t>(20 * m.b_stride));
      convert(dtype, adapter->bytes.get() + m.b_offset, DType::f32, got.data(), got.size());
      const std::int64_t at = lora_inner(kRank, m.b_stride, dtype) - 1;
      for (int row = 0; row < 20; ++row) {
        for (std::int64_t col = kRank; col < m.b_stride; ++col) {
          const float want = col == at ? static_cast<float>(row - 7) * 8 / kRank : 0;
          EXPECT_NEAR(got[static_cast<std::size_t>(row * m.b_stride + col)], want,
                      std::fabs(want) / 256)
              << row << " " << col;
        }
      }
    }
  }
}

// The weights of norms stay floats, and one is added where the family adds it.
TEST_F(PeftAdapter, HoldsWholeProjectionsBiasesAndTheWeightsOfNorms) {
  ModelSpec spec = base();
  for (LayerSpec& layer : spec.layers) layer.attention.qkv_bias = true;
  const std::string layer = "base_model.model.model.layers.1.";
  add_everywhere({"q_proj"});
  add_matrix(layer + "self_attn.o_proj.weight", 20, 18);
  const auto add_vector = [&](const std::string& name, std::int64_t size, DType dtype) {
    add_matrix(name, size, 1, dtype);
    tensors_[name].shape = {size};
    return tensors_[name].values;
  };
  const auto norm = add_vector(layer + "post_attention_layernorm.weight", 20, DType::bf16);
  const auto last = add_vector("base_model.model.model.norm.weight", 20, DType::f32);
  const auto bias = add_vector(layer + "self_attn.q_proj.base_layer.bias", 18, DType::f32);
  Json config = lora({"q_proj"});
  config["bias"] = "all";
  config["modules_to_save"] = {"1.self_attn.o_proj", "1.post_attention_layernorm", "model.norm"};
  write(config);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool adds_one : {false, true}) {
      spec.norm_adds_one = adds_one;
      const Result<Adapter> adapter = load_peft_adapter(dir_.path(), spec, dtype);
      ASSERT_TRUE(adapter) << adapter.status().message();
      EXPECT_THAT(adapter->modules,
                  ElementsAre("q_proj", "o_proj", "post_attention_layernorm", "norm"));
      EXPECT_EQ(adapter->max_rank, 4);
      const auto matrix_at = [&](std::size_t number, Site site) {
        return adapter->layers[number][spec.modules.first_of(site)];
      };
      const auto vector_at = [&](std::size_t number, Site site, std::size_t size) {
        std::vector<float> values(size);
        std::memcpy(values.data(), adapter->bytes.get() + matrix_at(number, site).b_offset,
                    size * sizeof(float));
        return values;
      };
      const auto plus = [&](std::vector<float> values) {
        for (float& value : values) value += adds_one ? 1.0F : 0.0F;
        return values;
      };
      EXPECT_EQ(vector_at(1, Site::mlp_norm, 20), plus(norm));
      EXPECT_EQ(vector_at(2, Site::final_norm, 20), plus(last));
      EXPECT_EQ(vector_at(1, Site::qkv_bias, 18), bias);
      EXPECT_EQ(matrix_at(0, Site::qkv_bias).rank, 0);
      EXPECT_EQ(matrix_at(1, Site::attention_norm).rank, 0);
      const AdapterMatrix whole = matrix_at(1, Site::whole_o);
      ASSERT_EQ(whole.rank, 18);
      std::vector<float> rows(static_cast<std::size_t>(20 * whole.b_stride));
      convert(dtype, adapter->bytes.get() + whole.b_offset, DType::f32, rows.data(), rows.size());
      const auto& written = tensors_[layer + "self_attn.o_proj.weight"].values;
      for (std::size_t row = 0; row < 20; ++row) {
        for (std::size_t c = 0; c < static_cast<std::size_t>(whole.b_stride); ++c) {
          const float want = c < 18 ? written[row * 18 + c] : 0;
          ASSERT_EQ(rows[row * static_cast<std::size_t>(whole.b_stride) + c], want);
        }
      }
    }
  }
}

// The columns of a whole projection are spread as those of the base's.
TEST_F(PeftAdapter, SpreadsWholeProjectionsOverDevices) {
  const ModelSpec spec = spread_over(base(), 2);
  add_everywhere({"v_proj"});
  const std::string name = "base_model.model.model.layers.0.self_attn.o_proj.weight";
  add_matrix(name, 20, 18);
  Json config = lora({"v_proj"});
  config["modules_to_save"] = {"0.self_attn.o_proj"};
  write(config);
  const Result<Adapter> adapter = load_peft_adapter(dir_.path(), spec, DType::f32);
  ASSERT_TRUE(adapter) << adapter.status().message();
  const AdapterMatrix& whole = adapter->layers[0][spec.modules.first_of(Site::whole_o)];
  ASSERT_EQ(whole.rank, spec.q_size());
  ASSERT_GT(whole.rank, 18);
  const auto* const rows = reinterpret_cast<const float*>(adapter->bytes.get() + whole.b_offset);
  for (std::int64_t row = 0; row < 20; ++row) {
    std::vector<float> want(static_cast<std::size_t>(whole.b_stride), 0.0F);
    copy_spread(spread_of_queries(spec.attention()), sizeof(float),
                reinterpret_cast<const std::byte*>(tensors_[name].values.data() + row * 18),
                reinterpret_cast<std::byte*>(want.data()));
    for (std::size_t c = 0; c < want.size(); ++c) {
      ASSERT_EQ(rows[row * whole.b_stride + static_cast<std::int64_t>(c)], want[c]) << row;
    }
  }
}

TEST_F(PeftAdapter, HoldsTheRowsOfTrainedTokensByAscendingToken) {
  const std::vector<std::int32_t> tokens = {30, 2, 49, 31, 32, 0};
  const std::string name =
      "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta";
  for (const DType stored : {DType::f32, DType::bf16}) {
    tensors_.clear();
    add_matrix(name, 6, 20, stored);
    Json config = lora({"q_proj"});
    config["trainable_token_indices"] = tokens;
    add_everywhere({"q_proj"});
    write(config);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Result<Adapter> adapter = load_as(dtype);
      ASSERT_TRUE(adapter) << adapter.status().message();
      EXPECT_EQ(adapter->max_rank, 4);
      const ModuleTable& table = base().modules;
      const AdapterMatrix& m = adapter->layers[0][table.first_of(Site::embedding_tokens)];
      ASSERT_EQ(m.rank, 6);
      EXPECT_EQ(adapter->layers[2][table.first_of(Site::head_tokens)].rank, 0);
      std::vector<std::int32_t> ids(6);
      std::memcpy(ids.data(), adapter->bytes.get() + m.b_offset, 6 * sizeof(std::int32_t));
      EXPECT_EQ(ids, (std::vector<std::int32_t>{0, 2, 30, 31, 32, 49}));
      std::vector<float> rows(6 * 20);
      convert(dtype, adapter->bytes.get() + m.a_offset, DType::f32, rows.data(), rows.size());
      const std::vector<float>& written = tensors_[name].values;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto from =
            static_cast<std::size_t>(std::ranges::find(tokens, ids[i]) - tokens.begin());
        for (std::size_t c = 0; c < 20; ++c) {
          ASSERT_EQ(rows[i * 20 + c], written[from * 20 + c]) << "token " << ids[i];
        }
      }
    }
  }
}

TEST_F(PeftAdapter, KeepsTheRowsBeyondTheBasesVocabularyByToken) {
  constexpr std::int64_t kOwn = 53;
  const std::string embedding = "base_model.model.model.embed_tokens";
  add_everywhere({"q_proj"});
  add_matrix(embedding + ".token_adapter.base_layer.weight", kOwn, 20);
  add_matrix(embedding + ".token_adapter.trainable_tokens_delta", 2, 20);
  add_matrix("base_model.model.lm_head.weight", kOwn, 20);
  Json config = lora({"q_proj"});
  config["trainable_token_indices"] = {52, 7};
  const Result<Adapter> adapter = load(config);
  ASSERT_TRUE(adapter) << adapter.status().message();
  EXPECT_EQ(adapter->vocab_size, kOwn);
  const auto rows_at = [&](int layer, Site site) {
    const AdapterMatrix& m =
        adapter->layers[static_cast<std::size_t>(layer)][base().modules.first_of(site)];
    std::map<std::int32_t, std::vector<float>> rows;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(m.rank));
    std::memcpy(ids.data(), adapter->bytes.get() + m.b_offset, ids.size() * sizeof(std::int32_t));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::vector<float>& row = rows[ids[i]];
      row.resize(20);
      std::memcpy(row.data(), adapter->bytes.get() + m.a_offset + i * 80, 80);
    }
    return rows;
  };
  const auto row_of = [&](const std::string& name, int row) {
    const auto begin = tensors_[name].values.begin() + std::ptrdiff_t{20} * row;
    return std::vector<float>(begin, begin + 20);
  };
  const auto whole = embedding + ".token_adapter.base_layer.weight";
  const auto trained = embedding + ".token_adapter.trainable_tokens_delta";
  EXPECT_THAT(rows_at(0, Site::embedding_tokens),
              ElementsAre(std::pair(7, row_of(trained, 1)), std::pair(50, row_of(whole, 50)),
                          std::pair(51, row_of(whole, 51)), std::pair(52, row_of(trained, 0))));
  const std::string head = "base_model.model.lm_head.weight";
  EXPECT_THAT(rows_at(2, Site::head_tokens),
              ElementsAre(std::pair(50, row_of(head, 50)), std::pair(51, row_of(head, 51)),
                          std::pair(52, row_of(head, 52))));
  EXPECT_EQ(adapter->layers[0][base().modules.first_of(Site::whole_embedding)].rank, 20);
}

TEST_F(PeftAdapter, TakesTargetsAsNamesPathsPatternsOrAllLinear) {
  add_everywhere({"q_proj", "v_proj"});
  EXPECT_EQ(adapted(lora({"q_proj", "v_proj"})), "0q 0v 1q 1v 2q 2v");
  EXPECT_EQ(adapted(lora({"self_attn.q_proj", "v_proj"})), "0q 0v 1q 1v 2q 2v");
  EXPECT_EQ(adapted(lora(".*self_attn.(q|v)_proj")), "0q 0v 1q 1v 2q 2v");
  EXPECT_EQ(adapted(lora(nullptr)), "0q 0v 1q 1v 2q 2v");
  tensors_.clear();
  add(1, "q_proj", 4);
  EXPECT_EQ(adapted(lora({"model.layers.1.self_attn.q_proj"})), "1q");
  EXPECT_EQ(adapted(lora({"layers.1.self_attn.q_proj"})), "1q");
  EXPECT_EQ(adapted(lora(R"(model\.layers\.[1]\.self_attn\.q_proj)")), "1q");
  tensors_.clear();
  add_everywhere({"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"});
  EXPECT_EQ(adapted(lora("all-linear")),
            "0q 0k 0v 0o 0gate 0up 0down 1q 1k 1v 1o 1gate 1up 1down 2q 2k 2v 2o 2gate 2up 2down");
  EXPECT_EQ(load()->modules.size(), 7U);
}

TEST_F(PeftAdapter, APatternMustMatchTheWholePath) {
  add_everywhere({"q_proj"});
  EXPECT_THAT(message(lora("q_proj")), HasSubstr("adapts no module"));
  EXPECT_THAT(message(lora("model.*q_pro")), HasSubstr("adapts no module"));
  EXPECT_THAT(message(lora("model.*q_proj|x")), "accepted");
}

TEST_F(PeftAdapter, LeavesOutWhatIsExcluded) {
  add(0, "q_proj", 4);
  add(2, "q_proj", 4);
  Json config = lora({"q_proj", "v_proj"});
  config["exclude_modules"] = {"v_proj", "model.layers.1.self_attn.q_proj"};
  EXPECT_EQ(adapted(config), "0q 2q");
  config["exclude_modules"] = R"(.*\.1\..*|.*v_proj)";
  EXPECT_EQ(adapted(config), "0q 2q");
  config = lora("all-linear");
  config["exclude_modules"] = R"(.*\.1\..*|.*[kvonpe]_proj)";
  EXPECT_EQ(adapted(config), "0q 2q");
}

TEST_F(PeftAdapter, TransformsOnlyTheLayersNamed) {
  add(2, "q_proj", 4);
  Json config = lora({"q_proj"});
  config["layers_to_transform"] = 2;
  EXPECT_EQ(adapted(config), "2q");
  config["layers_to_transform"] = {2};
  config["layers_pattern"] = "layers";
  EXPECT_EQ(adapted(config), "2q");
  config["layers_pattern"] = {"h", "layers"};
  EXPECT_EQ(adapted(config), "2q");
  config["layers_pattern"] = "h";
  EXPECT_THAT(message(config), HasSubstr("adapts no module"));
  config.erase("layers_pattern");
  config["layers_to_transform"] = {2, 3};
  EXPECT_THAT(message(config), HasSubstr("layer 3, the base has layers 0 to 2"));
  config["layers_to_transform"] = {2, -1};
  EXPECT_THAT(message(config), HasSubstr("layers_to_transform"));
  config = lora(".*q_proj");
  config["layers_to_transform"] = {2};
  EXPECT_THAT(message(config), HasSubstr("cannot go with"));
  add_everywhere({"q_proj"});
  config = lora({"q_proj"});
  config["layers_to_transform"] = Json::array();
  EXPECT_EQ(adapted(config), "0q 1q 2q");
}

TEST(PeftAdapterOfAnotherTable, HasTheModulesThatItsLayersHave) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  const ModelSpec spec = test::uneven_model(6, random);
  const testing::TempDir dir;
  const std::string folder = testing::write_peft_adapter(
      dir, "a", spec, 4, {"in_proj", "q_proj", "k_proj", "v_proj", "down_proj"}, 1);
  const Result<Adapter> adapter = load_peft_adapter(folder, spec, DType::f32);
  ASSERT_TRUE(adapter) << adapter.status().message();
  std::uint64_t end = 0;
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (std::size_t m = 0; m < spec.modules.size(); ++m) {
      const AdapterMatrix& matrix = adapter->layers[static_cast<std::size_t>(layer)][m];
      const std::string_view name = spec.modules[m].name();
      const bool targeted = takes_offers(spec.modules[m].site) && name != "o_proj" &&
                            name != "gate_proj" && name != "up_proj";
      ASSERT_EQ(matrix.rank > 0, targeted && module_out(spec, layer, m) > 0)
          << name << " of layer " << layer;
      if (matrix.rank == 0) continue;
      EXPECT_EQ(matrix.a_offset, end);  // widths are multiples of 16 numbers, 64 bytes
      end = matrix.b_offset + 16 * static_cast<std::uint64_t>(module_out(spec, layer, m));
    }
  }
  EXPECT_EQ(end, adapter->num_bytes);
}

TEST(PeftAdapterOfAnotherTable, HasModulesOutsideOfLayersThatListsOfLayersLeaveOut) {
  const ModelSpec spec = test::small_model_with_layer_inputs();
  const testing::TempDir dir;
  const std::string folder = testing::write_peft_adapter(
      dir, "a", spec, 4, {"per_layer_model_projection", "per_layer_projection"}, 1);
  const std::size_t all = spec.modules.row("per_layer_model_projection");
  const std::size_t projection = spec.modules.row("per_layer_projection");
  EXPECT_EQ(module_path(spec, 0, all), "model.per_layer_model_projection");
  const Result<Adapter> adapter = load_peft_adapter(folder, spec, DType::f32);
  ASSERT_TRUE(adapter) << adapter.status().message();
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    EXPECT_EQ(adapter->layers[layer][all].rank, layer == 0 ? 4 : 0);
    EXPECT_EQ(adapter->layers[layer][projection].rank, 4);
  }
  Json config = lora({"per_layer_model_projection", "per_layer_projection"});
  config["layers_to_transform"] = {0, 1, 2, 3, 4};
  dir.write("a/adapter_config.json", config.dump());
  EXPECT_THAT(load_peft_adapter(folder, spec, DType::f32).status().message(),
              HasSubstr("model.per_layer_model_projection, which adapter_config.json does not"));
}

TEST(PathInTextModel, LeavesOutTheTowersOfMultimodalModels) {
  ModelSpec spec = base();
  spec.names.multimodal = true;
  for (const char* const path :
       {"model.vision_tower.encoder.layers.0.q_proj", "multi_modal_projector.linear",
        "model.audio_tower.layers.0.q_proj", "model.embed_vision.embedding_projection",
        "embed_audio.embedding_projection"}) {
    EXPECT_EQ(path_in_text_model(spec, path), std::nullopt) << path;
  }
  EXPECT_EQ(path_in_text_model(spec, "model.language_model.per_layer_model_projection"),
            "model.per_layer_model_projection");
  spec.names.root = "model.language_model.";
  EXPECT_EQ(path_in_text_model(spec, "model.layers.0.mlp.up_proj"),
            "model.language_model.layers.0.mlp.up_proj");
}

TEST_F(PeftAdapter, LeavesOutKeysAndValuesOfLayersThatTakeThoseOfAnother) {
  add_everywhere({"q_proj", "k_proj", "v_proj"});
  write(lora({"q_proj", "k_proj", "v_proj"}));
  ModelSpec spec = base();
  spec.layers[2].attention.keys_of = 1;
  const Result<Adapter> adapter = load_peft_adapter(dir_.path(), spec, DType::f32);
  ASSERT_TRUE(adapter) << adapter.status().message();
  EXPECT_EQ(adapter->layers[2][base().modules.row("q_proj")].rank, 4);
  EXPECT_EQ(adapter->layers[2][base().modules.row("k_proj")].rank, 0);
  spec.layers[2].attention.keys_of = AttentionSpec::kOwnKeys;
  EXPECT_TRUE(load_peft_adapter(dir_.path(), spec, DType::f32));
}

float first_scale(const Adapter& adapter, std::size_t layer, std::string_view module,
                  const std::vector<float>& b) {
  const AdapterMatrix& m = adapter.layers[layer][base().modules.row(module)];
  float value = 0;
  convert(adapter.dtype, adapter.bytes.get() + m.b_offset, DType::f32, &value, 1);
  return value / b[0];
}

TEST_F(PeftAdapter, GivesEachModuleTheRankAndAlphaOfTheFirstPatternThatMatches) {
  add(0, "q_proj", 2);
  add(1, "q_proj", 4);
  add(2, "q_proj", 16);
  Json config = lora({"q_proj"});
  config["rank_pattern"] = {{"layers.0.self_attn.q_proj", 2}, {R"(model\.layers\.2\..*)", 16}};
  config["alpha_pattern"] = {
      {"^model.layers.2.*", 64}, {"q_proj", 0.5}, {"layers.0.self_attn.q_proj", 99}};
  const Result<Adapter> adapter = load(config);
  ASSERT_TRUE(adapter) << adapter.status().message();
  const auto scale = [&](std::size_t layer) {
    const std::string name =
        fmt::format("base_model.model.model.layers.{}.self_attn.q_proj.lora_B.weight", layer);
    return first_scale(*adapter, layer, "q_proj", tensors_[name].values);
  };
  EXPECT_FLOAT_EQ(scale(0), 0.5F / 2);
  EXPECT_FLOAT_EQ(scale(1), 0.5F / 4);
  EXPECT_FLOAT_EQ(scale(2), 64.0F / 16);
  config["use_rslora"] = true;
  const Result<Adapter> stable = load(config);
  ASSERT_TRUE(stable);
  EXPECT_FLOAT_EQ(
      first_scale(
          *stable, 2, "q_proj",
          tensors_["base_model.model.model.layers.2.self_attn.q_proj.lora_B.weight"].values),
      64.0F / 4);
  // Part of a module's name does not match it.
  config["rank_pattern"] = {{"proj", 2}, {"elf_attn.q_proj", 2}, {"1.self_attn.q_pro", 3}};
  EXPECT_THAT(message(config), HasSubstr("the rank in adapter_config.json"));
}

TEST_F(PeftAdapter, ToleratesTheAdaptersNameInTensorNames) {
  const std::string path = "base_model.model.model.layers.1.self_attn.q_proj";
  add_matrix(path + ".lora_A.default.weight", 4, 20);
  add_matrix(path + ".lora_B.default.weight", 18, 4);
  EXPECT_EQ(adapted(lora({"layers.1.self_attn.q_proj"})), "1q");
}

// As tools write them, and as adapters of the same text model without a head or beside others.
TEST_F(PeftAdapter, IsTheSameUnderTheNamesOfTheWild) {
  add_everywhere({"q_proj", "down_proj"});
  const auto plain = tensors_;
  const std::string digest = load(lora({"q_proj", "down_proj"}))->digest;
  constexpr std::string_view kPrefix = "base_model.model.model.";
  for (const std::string_view prefix :
       {"model.", "layers.", "base_model.model.", "base_model.model.model.language_model.",
        "base_model.model.language_model.model."}) {
    for (const std::string_view ending : {".weight", ".default.weight"}) {
      tensors_.clear();
      for (const auto& [name, tensor] : plain) {
        const std::string path = name.substr(kPrefix.size(), name.rfind('.') - kPrefix.size());
        tensors_[fmt::format("{}{}{}", prefix == "layers." ? "" : prefix, path, ending)] = tensor;
      }
      SCOPED_TRACE(tensors_.begin()->first);
      EXPECT_EQ(load(lora({"q_proj", "down_proj"}))->digest, digest);
    }
  }
}

TEST_F(PeftAdapter, TheDigestFollowsTheContents) {
  add_everywhere({"q_proj"});
  const std::string digest = load(lora({"q_proj"}))->digest;
  add_matrix("base_model.model.score.weight", 2, base().hidden_size);
  const std::string with_scores = load(lora({"q_proj"}))->digest;
  EXPECT_NE(with_scores, digest);
  tensors_["base_model.model.score.weight"].values[5] += 1;
  EXPECT_NE(load(lora({"q_proj"}))->digest, with_scores);
  tensors_.erase("base_model.model.score.weight");
  EXPECT_EQ(load(lora({"self_attn.q_proj"}))->digest, digest);
  Json louder = lora({"q_proj"});
  louder["lora_alpha"] = 16;
  EXPECT_NE(load(louder)->digest, digest);
  tensors_["base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight"].values[5] += 1;
  EXPECT_NE(load(lora({"q_proj"}))->digest, digest);
}

TEST(DummyAdapter, IsTheSameForTheSameSeed) {
  const std::vector<std::string_view> modules = {"v_proj", "q_proj"};
  const Adapter one = make_dummy_adapter(base(), DType::bf16, 5, modules, 1);
  EXPECT_THAT(one.modules, ElementsAre("q_proj", "v_proj"));
  EXPECT_EQ(one.max_rank, 5);
  EXPECT_EQ(one.digest, make_dummy_adapter(base(), DType::bf16, 5, modules, 1).digest);
  EXPECT_NE(one.digest, make_dummy_adapter(base(), DType::bf16, 5, modules, 2).digest);
  for (std::size_t layer = 0; layer < one.layers.size(); ++layer) {
    const AdapterMatrix& q = one.layers[layer][0];
    EXPECT_EQ(q.b_stride, 8);
    std::vector<float> b(18 * 8);
    convert(DType::bf16, one.bytes.get() + q.b_offset, DType::f32, b.data(), b.size());
    for (std::size_t i = 0; i < b.size(); ++i) EXPECT_EQ(b[i] == 0, i % 8 >= 5) << i;
  }
}

}  // namespace
}  // namespace tandem::peft_test
