// Adapters made here, of sizes no power of two, sound ones and every kind that is refused.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "engine/loader/adapter.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SafetensorsWriter;
using testing::TempDir;
using Json = nlohmann::ordered_json;

ModelConfig base() {
  ModelConfig config;
  config.hidden_size = 20;
  config.num_layers = 3;
  config.num_heads = 3;
  config.num_kv_heads = 1;
  config.head_dim = 6;
  config.ffn_size = 28;
  config.vocab_size = 50;
  return config;
}

Json lora(const Json& targets, int rank = 4) {
  return {{"peft_type", "LORA"}, {"base_model_name_or_path", "base"}, {"bias", "none"}, {"r", rank},
          {"lora_alpha", 8},     {"target_modules", targets}};
}

struct Tensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

class PeftAdapter : public ::testing::Test {
 protected:
  // A and B of one module, with values that tell every element apart.
  void add(int layer, Module module, int rank, DType dtype = DType::f32) {
    const std::string path =
        fmt::format("base_model.model.model.layers.{}.{}.{}", layer,
                    module <= Module::o ? "self_attn" : "mlp", to_string(module));
    add_matrix(path + ".lora_A.weight", rank, module_in(base(), module), dtype);
    add_matrix(path + ".lora_B.weight", module_out(base(), module), rank, dtype);
  }
  void add_matrix(const std::string& name, std::int64_t rows, std::int64_t cols,
                  DType dtype = DType::f32) {
    Tensor tensor{dtype, {rows, cols}, {}};
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      tensor.values.push_back(static_cast<float>((i * 37 + rows) % 101) / 16 - 3);
    }
    tensors_[name] = std::move(tensor);
  }
  void add_everywhere(std::initializer_list<Module> modules, int rank = 4) {
    for (int layer = 0; layer < 3; ++layer) {
      for (const Module module : modules) add(layer, module, rank);
    }
  }

  void write(const Json& config) {
    dir_.write("adapter_config.json", config.dump());
    SafetensorsWriter writer;
    for (const auto& [name, t] : tensors_) writer.add(name, t.dtype, t.shape, t.values);
    dir_.write("adapter_model.safetensors", writer.bytes());
  }
  Result<Adapter> load_as(DType dtype) const {
    return load_peft_adapter(dir_.path(), base(), dtype);
  }
  Result<Adapter> load() const { return load_as(DType::f32); }
  Result<Adapter> load(const Json& config) {
    write(config);
    return load();
  }
  std::string message(const Json& config) {
    const Result<Adapter> adapter = load(config);
    return adapter ? "accepted" : adapter.status().message();
  }
  std::string message_with(const std::string& field, const Json& value) {
    Json config = lora({"q_proj"});
    config[field] = value;
    return message(config);
  }
  // "0q 1v": which modules of which layers are adapted.
  std::string adapted(const Json& config) {
    const Result<Adapter> adapter = load(config);
    if (!adapter) return adapter.status().message();
    std::string text;
    for (std::size_t layer = 0; layer < adapter->layers.size(); ++layer) {
      for (std::size_t m = 0; m < kNumModules; ++m) {
        if (adapter->layers[layer][m].rank == 0) continue;
        const std::string_view name = to_string(static_cast<Module>(m));
        text +=
            fmt::format("{}{}{}", text.empty() ? "" : " ", layer, name.substr(0, name.find('_')));
      }
    }
    return text;
  }

  TempDir dir_;
  std::map<std::string, Tensor> tensors_;
};

TEST_F(PeftAdapter, LoadsAnyRankFrom1To512) {
  for (const int rank : {1, 3, 5, 12, 40, 512}) {
    for (const DType stored : {DType::f32, DType::f16, DType::bf16}) {
      tensors_.clear();
      for (int layer = 0; layer < 3; ++layer) add(layer, Module::down, rank, stored);
      write(lora({"down_proj"}, rank));
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const Result<Adapter> adapter = load_as(dtype);
        ASSERT_TRUE(adapter) << adapter.status().message();
        const AdapterMatrix& m = adapter->layers[2][static_cast<std::size_t>(Module::down)];
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

TEST_F(PeftAdapter, TakesTargetsAsNamesPathsPatternsOrAllLinear) {
  add_everywhere({Module::q, Module::v});
  EXPECT_EQ(adapted(lora({"q_proj", "v_proj"})), "0q 0v 1q 1v 2q 2v");
  EXPECT_EQ(adapted(lora({"self_attn.q_proj", "v_proj"})), "0q 0v 1q 1v 2q 2v");
  EXPECT_EQ(adapted(lora(".*self_attn.(q|v)_proj")), "0q 0v 1q 1v 2q 2v");
  EXPECT_EQ(adapted(lora(nullptr)), "0q 0v 1q 1v 2q 2v");
  tensors_.clear();
  add(1, Module::q, 4);
  EXPECT_EQ(adapted(lora({"model.layers.1.self_attn.q_proj"})), "1q");
  EXPECT_EQ(adapted(lora({"layers.1.self_attn.q_proj"})), "1q");
  EXPECT_EQ(adapted(lora(R"(model\.layers\.[1]\.self_attn\.q_proj)")), "1q");
  tensors_.clear();
  add_everywhere(
      {Module::q, Module::k, Module::v, Module::o, Module::gate, Module::up, Module::down});
  EXPECT_EQ(adapted(lora("all-linear")),
            "0q 0k 0v 0o 0gate 0up 0down 1q 1k 1v 1o 1gate 1up 1down 2q 2k 2v 2o 2gate 2up 2down");
  EXPECT_EQ(load()->modules.size(), 7U);
}

TEST_F(PeftAdapter, APatternMustMatchTheWholePath) {
  add_everywhere({Module::q});
  EXPECT_THAT(message(lora("q_proj")), HasSubstr("adapts no module"));
  EXPECT_THAT(message(lora("model.*q_pro")), HasSubstr("adapts no module"));
  EXPECT_THAT(message(lora("model.*q_proj|x")), "accepted");
}

TEST_F(PeftAdapter, LeavesOutWhatIsExcluded) {
  add(0, Module::q, 4);
  add(2, Module::q, 4);
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
  add(2, Module::q, 4);
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
  add_everywhere({Module::q});
  config = lora({"q_proj"});
  config["layers_to_transform"] = Json::array();
  EXPECT_EQ(adapted(config), "0q 1q 2q");
}

float first_scale(const Adapter& adapter, std::size_t layer, Module module,
                  const std::vector<float>& b) {
  const AdapterMatrix& m = adapter.layers[layer][static_cast<std::size_t>(module)];
  float value = 0;
  convert(adapter.dtype, adapter.bytes.get() + m.b_offset, DType::f32, &value, 1);
  return value / b[0];
}

TEST_F(PeftAdapter, GivesEachModuleTheRankAndAlphaOfTheFirstPatternThatMatches) {
  add(0, Module::q, 2);
  add(1, Module::q, 4);
  add(2, Module::q, 16);
  Json config = lora({"q_proj"});
  config["rank_pattern"] = {{"layers.0.self_attn.q_proj", 2}, {R"(model\.layers\.2\..*)", 16}};
  config["alpha_pattern"] = {
      {"^model.layers.2.*", 64}, {"q_proj", 0.5}, {"layers.0.self_attn.q_proj", 99}};
  const Result<Adapter> adapter = load(config);
  ASSERT_TRUE(adapter) << adapter.status().message();
  const auto scale = [&](std::size_t layer) {
    const std::string name =
        fmt::format("base_model.model.model.layers.{}.self_attn.q_proj.lora_B.weight", layer);
    return first_scale(*adapter, layer, Module::q, tensors_[name].values);
  };
  EXPECT_FLOAT_EQ(scale(0), 0.5F / 2);
  EXPECT_FLOAT_EQ(scale(1), 0.5F / 4);
  EXPECT_FLOAT_EQ(scale(2), 64.0F / 16);
  config["use_rslora"] = true;
  const Result<Adapter> stable = load(config);
  ASSERT_TRUE(stable);
  EXPECT_FLOAT_EQ(
      first_scale(
          *stable, 2, Module::q,
          tensors_["base_model.model.model.layers.2.self_attn.q_proj.lora_B.weight"].values),
      64.0F / 4);
  // A part of a name is not a name.
  config["rank_pattern"] = {{"proj", 2}, {"elf_attn.q_proj", 2}, {"1.self_attn.q_pro", 3}};
  EXPECT_THAT(message(config), HasSubstr("the rank in adapter_config.json"));
}

TEST_F(PeftAdapter, RefusesWhatChangesTheMaths) {
  add_everywhere({Module::q});
  ASSERT_EQ(message(lora({"q_proj"})), "accepted");
  EXPECT_THAT(message_with("use_dora", true), HasSubstr("DoRA"));
  EXPECT_THAT(message_with("bias", "all"), HasSubstr("bias"));
  EXPECT_THAT(message_with("bias", "lora_only"), HasSubstr("bias"));
  EXPECT_THAT(message_with("lora_bias", true), HasSubstr("bias"));
  EXPECT_THAT(message_with("modules_to_save", {"lm_head"}), HasSubstr("modules_to_save"));
  EXPECT_THAT(message_with("fan_in_fan_out", true), HasSubstr("fan_in_fan_out"));
  EXPECT_THAT(message_with("peft_type", "LOHA"), HasSubstr("LOHA"));
  EXPECT_THAT(message_with("peft_type", nullptr), HasSubstr("'peft_type' is missing"));
  EXPECT_THAT(message_with("alora_invocation_tokens", {1, 2}), HasSubstr("activated LoRA"));
  EXPECT_THAT(message_with("layer_replication", {{0, 2}, {1, 3}}), HasSubstr("replicated"));
  EXPECT_THAT(message_with("trainable_token_indices", {5}), HasSubstr("trained tokens"));
  EXPECT_THAT(message_with("target_parameters", {"w"}), HasSubstr("parameters"));
  EXPECT_THAT(message_with("use_qalora", true), HasSubstr("QALoRA"));
  EXPECT_THAT(message_with("use_bdlora", {{"a", 1}}), HasSubstr("block-diagonal"));
  EXPECT_THAT(message_with("arrow_config", {{"top_k", 1}}), HasSubstr("Arrow"));
  EXPECT_THAT(message_with("use_something_new", true), HasSubstr("use_something_new"));
  EXPECT_THAT(message_with("new_config", {{"a", 1}}), HasSubstr("new_config"));
  EXPECT_THAT(message_with("init_lora_weights", "pissa_niter_4"), HasSubstr("alters the base"));
}

TEST_F(PeftAdapter, AcceptsSettingsThatOnlyConcernTraining) {
  add_everywhere({Module::q});
  EXPECT_EQ(message_with("init_lora_weights", "gaussian"), "accepted");
  EXPECT_EQ(message_with("init_lora_weights", false), "accepted");
  EXPECT_EQ(message_with("lora_dropout", 0.1), "accepted");
  EXPECT_EQ(message_with("eva_config", {{"rho", 2}}), "accepted");
  EXPECT_EQ(message_with("qalora_group_size", 16), "accepted");
  EXPECT_EQ(message_with("some_note", "text"), "accepted");
  EXPECT_EQ(message_with("use_dora", nullptr), "accepted");
}

TEST_F(PeftAdapter, RefusesAbsurdSettingsByName) {
  add_everywhere({Module::q});
  for (const Json& rank :
       {Json(0), Json(-1), Json(513), Json(4.0), Json("4"), Json(nullptr), Json(1e30)}) {
    EXPECT_THAT(message_with("r", rank), HasSubstr("'r'")) << rank;
  }
  EXPECT_THAT(message_with("lora_alpha", "x"), HasSubstr("lora_alpha"));
  EXPECT_THAT(message_with("lora_alpha", nullptr), HasSubstr("lora_alpha"));
  EXPECT_THAT(message_with("use_rslora", 1), HasSubstr("use_rslora"));
  EXPECT_THAT(message_with("target_modules", 3), HasSubstr("target_modules"));
  EXPECT_THAT(message_with("target_modules", {1}), HasSubstr("target_modules"));
  EXPECT_THAT(message_with("target_modules", {""}), HasSubstr("target_modules"));
  EXPECT_THAT(message_with("target_modules", Json::array()), HasSubstr("adapts no module"));
  EXPECT_THAT(message_with("rank_pattern", {{"q_proj", 0}}), HasSubstr("rank_pattern.q_proj"));
  EXPECT_THAT(message_with("rank_pattern", {{"q_proj", 513}}), HasSubstr("rank_pattern.q_proj"));
  EXPECT_THAT(message_with("rank_pattern", {1}), HasSubstr("rank_pattern"));
  EXPECT_THAT(message_with("rank_pattern", {{"(", 2}}), HasSubstr("not a regular expression"));
  EXPECT_THAT(message_with("alpha_pattern", {{"q_proj", "x"}}), HasSubstr("alpha_pattern.q_proj"));
  EXPECT_THAT(message_with("exclude_modules", "("), HasSubstr("exclude_modules"));
}

TEST_F(PeftAdapter, GivesUpOnAPatternThatTakesForEver) {
  add_everywhere({Module::q});
  EXPECT_THAT(message(lora("(([a-z.0-9_]+)+)+[A-Z]")), HasSubstr("cannot be used"));
}

TEST_F(PeftAdapter, RefusesTheEmbeddingAndTheHead) {
  add_everywhere({Module::q});
  EXPECT_THAT(message(lora({"q_proj", "lm_head"})), HasSubstr("lm_head"));
  EXPECT_THAT(message(lora({"q_proj", "embed_tokens"})), HasSubstr("embed_tokens"));
  EXPECT_THAT(message(lora(".*")), HasSubstr("embedding"));
  add_matrix("base_model.model.lm_head.lora_A.weight", 4, 20);
  EXPECT_THAT(message(lora({"q_proj"})), HasSubstr("lm_head"));
  tensors_.erase("base_model.model.lm_head.lora_A.weight");
  add_matrix("base_model.model.model.embed_tokens.lora_embedding_A", 4, 50);
  EXPECT_THAT(message(lora({"q_proj"})), HasSubstr("LoRA on the embedding"));
}

TEST_F(PeftAdapter, RefusesTensorsThatDoNotBelong) {
  add_everywhere({Module::q});
  const auto refused = [&](const std::string& name) {
    add_matrix(name, 4, 20);
    const std::string why = message(lora({"q_proj"}));
    tensors_.erase(name);
    return why;
  };
  const std::string layer = "base_model.model.model.layers.0.";
  EXPECT_THAT(refused(layer + "self_attn.q_proj.lora_magnitude_vector"), HasSubstr("DoRA"));
  EXPECT_THAT(refused(layer + "self_attn.q_proj.lora_B.bias"), HasSubstr("bias"));
  EXPECT_THAT(refused("base_model.model.lm_head.modules_to_save.weight"),
              HasSubstr("whole modules"));
  EXPECT_THAT(refused("base_model.model.lm_head.weight"), HasSubstr("not A or B"));
  EXPECT_THAT(refused("something"), HasSubstr("not A or B"));
  EXPECT_THAT(refused("model.layers.0.self_attn.q_proj.lora_A.weight"), HasSubstr("not A or B"));
  EXPECT_THAT(refused("base_model.model..lora_A.weight"), HasSubstr("does not have"));
  EXPECT_THAT(refused("base_model.model.lora_A.weight"), HasSubstr("not A or B"));
  EXPECT_THAT(refused(layer + "self_attn.v_proj.lora_A.weight"), HasSubstr("does not target"));
  EXPECT_THAT(refused(layer + "self_attn.qkv_proj.lora_A.weight"),
              HasSubstr("the base does not have"));
  EXPECT_THAT(refused("base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight"),
              HasSubstr("model.layers.3.self_attn.q_proj, which the base does not have"));
  EXPECT_THAT(refused(layer + "self_attn.q_proj.lora_A.default.weight"), HasSubstr("two names"));
}

TEST_F(PeftAdapter, ToleratesTheAdaptersNameInTensorNames) {
  const std::string path = "base_model.model.model.layers.1.self_attn.q_proj";
  add_matrix(path + ".lora_A.default.weight", 4, 20);
  add_matrix(path + ".lora_B.default.weight", 18, 4);
  EXPECT_EQ(adapted(lora({"layers.1.self_attn.q_proj"})), "1q");
}

TEST_F(PeftAdapter, RefusesModulesTheBaseDoesNotHave) {
  add_everywhere({Module::q});
  EXPECT_THAT(message(lora({"q_proj", "c_attn"})),
              HasSubstr("'c_attn', which the base does not have"));
}

TEST_F(PeftAdapter, RefusesWhenAOrBIsMissing) {
  for (const std::string letter : {"A", "B"}) {
    add_everywhere({Module::q});
    tensors_.erase(
        fmt::format("base_model.model.model.layers.1.self_attn.q_proj.lora_{}.weight", letter));
    EXPECT_THAT(message(lora({"q_proj"})),
                HasSubstr(fmt::format("model.layers.1.self_attn.q_proj is adapted according to "
                                      "adapter_config.json, but its lora_{} is missing",
                                      letter)));
  }
  add_everywhere({Module::q});
  EXPECT_THAT(message(lora({"q_proj", "v_proj"})), HasSubstr("v_proj"));
}

TEST_F(PeftAdapter, RefusesShapesThatDoNotFit) {
  add_everywhere({Module::q});
  EXPECT_THAT(message(lora({"q_proj"}, 8)), HasSubstr("ask for [8, 20]"));
  const std::string path = "base_model.model.model.layers.2.self_attn.q_proj.lora_";
  add_matrix(path + "A.weight", 4, 21);
  EXPECT_THAT(message(lora({"q_proj"})),
              HasSubstr("lora_A of model.layers.2.self_attn.q_proj is F32[4, 21]"));
  add_matrix(path + "A.weight", 4, 20);
  add_matrix(path + "B.weight", 20, 4);
  EXPECT_THAT(message(lora({"q_proj"})), HasSubstr("ask for [18, 4]"));
}

TEST_F(PeftAdapter, RefusesWeightsThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const std::string letter : {"A", "B"}) {
      add_everywhere({Module::q});
      tensors_["base_model.model.model.layers.1.self_attn.q_proj.lora_" + letter + ".weight"]
          .values.back() = bad;
      write(lora({"q_proj"}));
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        EXPECT_THAT(load_as(dtype).status().message(),
                    HasSubstr(fmt::format("lora_{} of model.layers.1.self_attn.q_proj holds a NaN",
                                          letter)));
      }
    }
  }
  add_everywhere({Module::q});
  tensors_["base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight"].values[3] = 60000;
  write(lora({"q_proj"}));
  EXPECT_TRUE(load_as(DType::bf16));
  EXPECT_THAT(load_as(DType::f16).status().message(), HasSubstr("beyond the range of f16"));
}

TEST_F(PeftAdapter, RefusesPickleAndNothingByName) {
  EXPECT_THAT(load().status().message(), HasSubstr("adapter_config.json"));
  EXPECT_EQ(load().status().code(), StatusCode::not_found);
  dir_.write("adapter_config.json", lora({"q_proj"}).dump());
  EXPECT_EQ(load().status().code(), StatusCode::not_found);
  EXPECT_THAT(load().status().message(), HasSubstr("adapter_model.safetensors"));
  dir_.write("adapter_model.bin", "pickle");
  EXPECT_THAT(load().status().message(), HasSubstr("a pickle, which is never read"));
  // A pipe instead of a file must not hang.
  ASSERT_EQ(::mkfifo((dir_.path() / "adapter_model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(load().status().message(), HasSubstr("not a regular file"));
}

TEST_F(PeftAdapter, RefusesFilesCutOffAnywhere) {
  add(1, Module::q, 1);
  write(lora({"layers.1.self_attn.q_proj"}, 1));
  ASSERT_TRUE(load());
  const std::filesystem::path path = dir_.path() / "adapter_model.safetensors";
  const auto size = std::filesystem::file_size(path);
  for (auto cut = size; cut-- > 0;) {
    std::filesystem::resize_file(path, cut);
    ASSERT_FALSE(load()) << cut;
  }
  write(lora({"layers.1.self_attn.q_proj"}, 1));
  for (auto cut = std::filesystem::file_size(dir_.path() / "adapter_config.json"); cut-- > 0;) {
    std::filesystem::resize_file(dir_.path() / "adapter_config.json", cut);
    ASSERT_FALSE(load()) << cut;
  }
}

TEST_F(PeftAdapter, SurvivesDamageToBothFiles) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  add(1, Module::q, 1);
  add(1, Module::up, 1);
  const std::string config =
      lora({"layers.1.self_attn.q_proj", "model.layers.1.mlp.up_proj"}, 1).dump();
  write(Json::parse(config));
  std::ifstream in(dir_.path() / "adapter_model.safetensors", std::ios::binary);
  const std::string weights{std::istreambuf_iterator<char>(in), {}};
  for (int round = 0; round < 1500; ++round) {
    std::string damaged_config = config;
    std::string damaged_weights = weights;
    for (int edit = 0; edit < 3; ++edit) {
      std::string& text = random() % 2 == 0 ? damaged_config : damaged_weights;
      char& at = text[random() % std::min<std::size_t>(text.size(), 700)];
      at = random() % 2 == 0 ? static_cast<char>(random())
                             : static_cast<char>(at ^ (1 << random() % 8));
    }
    dir_.write("adapter_config.json", damaged_config);
    dir_.write("adapter_model.safetensors", damaged_weights);
    const Result<Adapter> adapter = load_as(DType::bf16);
    if (!adapter) {
      EXPECT_FALSE(adapter.status().message().empty());
    }
  }
}

TEST_F(PeftAdapter, LoadsWholeOrFailsWhileItsFilesComeAndGo) {
  add_everywhere({Module::q, Module::k, Module::v, Module::up}, 40);
  write(lora({"q_proj", "k_proj", "v_proj", "up_proj"}, 40));
  const std::string digest = load()->digest;
  const std::filesystem::path path = dir_.path() / "adapter_model.safetensors";
  const std::filesystem::path aside = dir_.path() / "aside";
  std::filesystem::copy_file(path, aside);
  std::atomic<bool> stop{false};
  std::thread meddler([&] {
    std::error_code ignored;
    while (!stop) {
      std::filesystem::resize_file(path, 5000, ignored);
      std::filesystem::remove(path, ignored);
      std::filesystem::copy_file(aside, dir_.path() / "new", ignored);
      std::filesystem::rename(dir_.path() / "new", path, ignored);
    }
  });
  for (int round = 0; round < 300; ++round) {
    const Result<Adapter> adapter = load();
    if (adapter) {
      EXPECT_EQ(adapter->digest, digest);
    }
  }
  stop = true;
  meddler.join();
}

TEST_F(PeftAdapter, TheDigestFollowsTheContents) {
  add_everywhere({Module::q});
  const std::string digest = load(lora({"q_proj"}))->digest;
  EXPECT_EQ(load(lora({"self_attn.q_proj"}))->digest, digest);
  Json louder = lora({"q_proj"});
  louder["lora_alpha"] = 16;
  EXPECT_NE(load(louder)->digest, digest);
  tensors_["base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight"].values[5] += 1;
  EXPECT_NE(load(lora({"q_proj"}))->digest, digest);
}

TEST(DummyAdapter, IsTheSameForTheSameSeed) {
  const std::vector<Module> modules = {Module::v, Module::q};
  const Adapter one = make_dummy_adapter(base(), DType::bf16, 5, modules, 1);
  EXPECT_THAT(one.modules, ElementsAre(Module::q, Module::v));
  EXPECT_EQ(one.max_rank, 5);
  EXPECT_EQ(one.digest, make_dummy_adapter(base(), DType::bf16, 5, modules, 1).digest);
  EXPECT_NE(one.digest, make_dummy_adapter(base(), DType::bf16, 5, modules, 2).digest);
  for (const auto& layer : one.layers) {
    const AdapterMatrix& q = layer[0];
    EXPECT_EQ(q.b_stride, 8);
    std::vector<float> b(18 * 8);
    convert(DType::bf16, one.bytes.get() + q.b_offset, DType::f32, b.data(), b.size());
    for (std::size_t i = 0; i < b.size(); ++i) EXPECT_EQ(b[i] == 0, i % 8 >= 5) << i;
  }
}

}  // namespace
}  // namespace tandem
