// GGUF files written from the checkpoints in data/families have the checkpoints' spec and weights.
#include "engine/loader/gguf_checkpoint.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "engine/model/families/registry.h"
#include "engine/model/weights/model_weights.h"
#include "gpu/host/host_device.h"
#include "tests/support/gguf_of_checkpoint.h"
#include "tests/support/same_weights.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::gguf_of_checkpoint;
using testing::GgufWeights;
using testing::TempDir;

// A config without what GGUF has no key for: those fields have the value that llama.cpp assumes.
Json config_of(const std::string& family) {
  const std::string folder = "data/families/" + family;
  std::ifstream old(folder + "/config.v4.json");
  Json config = Json::parse(old ? std::move(old) : std::ifstream(folder + "/config.json"));
  if (config.contains("query_pre_attn_scalar")) {
    config["query_pre_attn_scalar"] = config.at("head_dim");
  }
  config.erase("no_rope_layers");
  if (config.at("model_type") == "qwen2") config["use_sliding_window"] = false;
  return config;
}

bool same(const TensorView& a, const TensorView& b) {
  return a.num_elements() == b.num_elements() && a.dtype == b.dtype &&
         (a.num_elements() == 0 ||
          std::memcmp(a.data, b.data,
                      static_cast<std::size_t>(a.num_elements()) * size_of(a.dtype)) == 0);
}

void expect_same(const ModelWeights& a, const ModelWeights& b, std::int64_t layers,
                 DType dtype = DType::f32) {
  EXPECT_TRUE(test::same(a.embedding(), b.embedding(), dtype));
  EXPECT_TRUE(test::same(a.head(), b.head(), dtype));
  EXPECT_TRUE(same(a.final_norm(), b.final_norm()));
  for (std::int64_t i = 0; i < layers; ++i) {
    SCOPED_TRACE(i);
    const LayerWeights& x = a.layer(i);
    const LayerWeights& y = b.layer(i);
    EXPECT_TRUE(same(x.attention_norm, y.attention_norm));
    EXPECT_TRUE(test::same(x.qkv, y.qkv, dtype));
    EXPECT_TRUE(same(x.qkv_bias, y.qkv_bias));
    EXPECT_TRUE(same(x.q_norm, y.q_norm));
    EXPECT_TRUE(same(x.k_norm, y.k_norm));
    EXPECT_TRUE(test::same(x.o, y.o, dtype));
    EXPECT_TRUE(same(x.o_bias, y.o_bias));
    EXPECT_TRUE(same(x.attention_out_norm, y.attention_out_norm));
    EXPECT_TRUE(same(x.mlp_norm, y.mlp_norm));
    EXPECT_TRUE(test::same(x.gate_up, y.gate_up, dtype));
    EXPECT_TRUE(same(x.gate_up_bias, y.gate_up_bias));
    EXPECT_TRUE(test::same(x.down, y.down, dtype));
    EXPECT_TRUE(same(x.down_bias, y.down_bias));
    EXPECT_TRUE(same(x.mlp_out_norm, y.mlp_out_norm));
  }
}

class GgufFamilies : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (thread_sanitized() && GetParam() == std::string_view("gemma3_text")) {
      GTEST_SKIP() << "the largest vocabulary, converted by one thread";
    }
    device_ = make_host_device({}).value();
    config_ = config_of(GetParam());
    const Result<ModelSpec> spec = parse_model_spec(config_.dump());
    ASSERT_TRUE(spec.ok()) << spec.status().message();
    spec_ = *spec;
    source_ = open_checkpoint(std::string("data/families/") + GetParam()).value();
  }
  // Writes the model and opens it again.
  std::pair<ModelSpec, std::unique_ptr<WeightSource>> as_gguf(GgufWeights weights,
                                                              const char* name) {
    dir_.write(name, gguf_of_checkpoint(config_, spec_, *source_, weights).bytes());
    Result<ModelSpec> spec = load_model_spec(dir_.path() / name);
    EXPECT_TRUE(spec.ok()) << spec.status().message();
    return {std::move(spec).value(), open_checkpoint(dir_.path() / name).value()};
  }
  ModelWeights load(const ModelSpec& spec, const WeightSource& source, Shard shard = {},
                    DType dtype = DType::f32) {
    Result<ModelWeights> weights = ModelWeights::load(spec, shard, source, dtype, *device_, {});
    EXPECT_TRUE(weights.ok()) << weights.status().message();
    return std::move(weights).value();
  }

  TempDir dir_;
  std::unique_ptr<Device> device_;
  Json config_;
  ModelSpec spec_;
  std::unique_ptr<WeightSource> source_;
};

// The numbers that the file holds as floats.
RotarySpec in_floats(RotarySpec rotary) {
  const auto round = [](double& value) { value = static_cast<float>(value); };
  round(rotary.attention_factor);
  if (!rotary.longrope) return rotary;
  for (double& factor : rotary.longrope->short_factors) round(factor);
  for (double& factor : rotary.longrope->long_factors) round(factor);
  return rotary;
}

TEST_P(GgufFamilies, HaveTheSpecOfTheCheckpoint) {
  const ModelSpec got = as_gguf(GgufWeights::f32, "a.gguf").first;
  EXPECT_EQ(got.family, spec_.family);
  EXPECT_EQ(got.layers, spec_.layers);
  ASSERT_EQ(got.rotary.size(), spec_.rotary.size());
  for (std::size_t i = 0; i < got.rotary.size(); ++i) {
    EXPECT_EQ(in_floats(got.rotary[i]), in_floats(spec_.rotary[i]));
  }
  EXPECT_EQ(got.hidden_size, spec_.hidden_size);
  EXPECT_EQ(got.vocab_size, spec_.vocab_size);
  EXPECT_EQ(got.max_position_embeddings, spec_.max_position_embeddings);
  EXPECT_EQ(got.rms_norm_eps, spec_.rms_norm_eps);
  EXPECT_EQ(got.embedding_multiplier, spec_.embedding_multiplier);
  EXPECT_EQ(got.logits_multiplier, spec_.logits_multiplier);
  EXPECT_EQ(got.logits_softcap, spec_.logits_softcap);
  EXPECT_EQ(got.tie_word_embeddings, spec_.tie_word_embeddings);
  EXPECT_EQ(got.bos_token_id, spec_.bos_token_id);
  EXPECT_EQ(got.eos_token_ids.front(), spec_.eos_token_ids.front());
}

TEST_P(GgufFamilies, HaveTheWeightsOfTheCheckpointWholeAndInShards) {
  const auto [spec, source] = as_gguf(GgufWeights::f32, "a.gguf");
  expect_same(load(spec, *source), load(spec_, *source_), spec.num_layers());
  if (!check_shards(spec_, 2).ok()) return;
  for (const std::int32_t rank : {0, 1}) {
    expect_same(load(spec, *source, {rank, 2}), load(spec_, *source_, {rank, 2}),
                spec.num_layers());
  }
}

TEST_P(GgufFamilies, HaveTheDequantisedWeightsOfBlocks) {
  const auto [spec, packed] = as_gguf(GgufWeights::q8_0, "a.gguf");
  const auto [same_spec, plain] = as_gguf(GgufWeights::f32_of_q8_0, "b.gguf");
  EXPECT_GT(packed->packed_bytes(), 5'000U);
  EXPECT_EQ(plain->packed_bytes(), 0U);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const ModelWeights kept = load(spec, *packed, {}, dtype);
    const ModelWeights converted = load(spec, *plain, {}, dtype);
    EXPECT_LT(kept.bytes(), converted.bytes());
    expect_same(kept, converted, spec.num_layers(), dtype);
  }
  if (!check_shards(spec_, 2).ok()) return;
  for (const std::int32_t rank : {0, 1}) {
    expect_same(load(spec, *packed, {rank, 2}), load(spec, *plain, {rank, 2}), spec.num_layers());
  }
}

// Threads do the same for every family: under the thread sanitizer two stand for all.
std::vector<const char*> gguf_families() {
  if (thread_sanitized()) return {"gemma3_text", "phi3"};
  return {"llama_bias",  "llama_linear", "qwen2",         "qwen3_yarn", "gemma2",
          "gemma3_text", "phi3",         "phi3_longrope", "olmo2",      "olmo3",
          "smollm3",     "granite",      "glm4",          "cohere2",    "ministral3"};
}

INSTANTIATE_TEST_SUITE_P(Families, GgufFamilies, ::testing::ValuesIn(gguf_families()),
                         [](const auto& param) { return std::string(param.param); });

// The metadata of a small Llama, and its tensors.
testing::GgufWriter small_llama() {
  const Json config = config_of("llama_linear");
  const ModelSpec spec = parse_model_spec(config.dump()).value();
  const auto source = open_checkpoint("data/families/llama_linear").value();
  return gguf_of_checkpoint(config, spec, *source);
}
std::string why(const testing::GgufWriter& writer) {
  const TempDir dir;
  dir.write("a.gguf", writer.bytes());
  const Result<ModelSpec> spec = load_model_spec(dir.path() / "a.gguf");
  if (!spec) return spec.status().message();
  const auto source = open_checkpoint(dir.path() / "a.gguf");
  if (!source) return source.status().message();
  const auto device = make_host_device({}).value();
  return ModelWeights::load(*spec, {}, **source, DType::f32, *device, {}).status().message();
}

TEST(GgufCheckpoint, IsRefusedByTheNameOfWhatWouldChangeTheResult) {
  EXPECT_EQ(why(small_llama()), "");
  EXPECT_THAT(why(small_llama().add("llama.attention.clamp_kqv", 3.0F)),
              HasSubstr("'llama.attention.clamp_kqv' is not supported"));
  EXPECT_THAT(why(small_llama().add("llama.expert_count", 8U)), HasSubstr("num_local_experts"));
  EXPECT_THAT(why(small_llama().add_tensor("blk.0.attn_sinks.weight", {4}, std::vector<float>(4))),
              HasSubstr("tensor 'blk.0.attn_sinks.weight' has no place"));
  EXPECT_THAT(why(small_llama().add_tensor("blk.0.attn_q.bias", {64}, std::vector<float>(64))),
              HasSubstr("has no tensor 'blk.0.attn_k.bias'"));
  EXPECT_THAT(why(small_llama().add_tensor("rope_freqs.weight", {3}, std::vector<float>(3, 1))),
              HasSubstr("has 3 elements"));
  EXPECT_THAT(why(small_llama().add_tensor("rope_freqs.weight", {8}, std::vector<float>(8, 0))),
              HasSubstr("'rope_freqs.weight' holds 0"));
  testing::GgufWriter other;
  EXPECT_THAT(why(other), HasSubstr("'general.architecture' is missing"));
  EXPECT_THAT(why(other.add("general.architecture", "rwkv7")),
              HasSubstr("architecture 'rwkv7' is not supported in GGUF files; llama, "));
}

TEST(GgufCheckpoint, EndsAnswersAtTheEndOfATurn) {
  const TempDir dir;
  testing::GgufWriter writer = small_llama();
  writer.add("tokenizer.ggml.eot_token_id", 2U);
  writer.add("tokenizer.ggml.tokens",
             std::vector<std::string>{"<s>", "</s>", "<eot>", "<end_of_turn>"});
  dir.write("a.gguf", writer.bytes());
  EXPECT_THAT(load_model_spec(dir.path() / "a.gguf")->eos_token_ids,
              ::testing::ElementsAre(1, 2, 3));
}

TEST(GgufCheckpoint, DividesFrequenciesByItsFactors) {
  const TempDir dir;
  dir.write("a.gguf",
            small_llama().add_tensor("rope_freqs.weight", {8}, std::vector<float>(8, 4)).bytes());
  const Result<ModelSpec> spec = load_model_spec(dir.path() / "a.gguf");
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->rotary.front().divisors, std::vector<double>(8, 4));
}

}  // namespace
}  // namespace tandem
