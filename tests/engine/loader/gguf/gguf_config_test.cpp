#include "engine/loader/gguf/gguf_config.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::GgufWriter;
using testing::TempDir;

GgufWriter model_of(const std::string& architecture) {
  GgufWriter writer;
  writer.add("general.architecture", architecture);
  return std::move(writer.add_tensor("token_embd.weight", {4, 8}, std::vector<float>(32)));
}

Result<Json> translate(const GgufWriter& writer) {
  const TempDir dir;
  dir.write("a.gguf", writer.bytes());
  TANDEM_ASSIGN(const GgufModel model, GgufModel::open(dir.path() / "a.gguf"));
  return gguf_config(model);
}
std::string why(const GgufWriter& writer) {
  return translate(writer).status().message();
}

TEST(GgufConfig, EndsAnswersAtEveryTokenThatEndsATurnOrAText) {
  GgufWriter writer = model_of("llama");
  writer.add("tokenizer.ggml.tokens",
             std::vector<std::string>{"a", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>"});
  const Result<Json> config = translate(writer);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->at("eos_token_id"), Json({1, 2, 3}));
}

TEST(GgufConfig, ComputesInTheEmbeddingsTypeUnlessATensorIsQuantised) {
  constexpr std::uint32_t kF32 = 0, kF16 = 1, kQ8_0 = 8, kBf16 = 30;
  const auto dtype_of = [](const char* architecture, std::uint32_t embedding, std::uint32_t other) {
    GgufWriter writer;
    writer.add("general.architecture", architecture);
    writer.add("gemma3.attention.sliding_window", 4U);
    const auto bytes = [](std::uint32_t type) {
      return std::string(type == kQ8_0 ? 34 : type == kF32 ? 128 : 64, '\0');
    };
    writer.add_tensor("token_embd.weight", {1, 32}, embedding, bytes(embedding));
    writer.add_tensor("blk.0.ffn_up.weight", {1, 32}, other, bytes(other));
    return translate(writer).value().at("dtype").get<std::string>();
  };
  EXPECT_EQ(dtype_of("llama", kF16, kF16), "f16");
  EXPECT_EQ(dtype_of("llama", kBf16, kBf16), "bf16");
  EXPECT_EQ(dtype_of("llama", kF32, kF32), "f32");
  EXPECT_EQ(dtype_of("llama", kQ8_0, kQ8_0), "bf16");
  EXPECT_EQ(dtype_of("llama", kF16, kQ8_0), "bf16");
  EXPECT_EQ(dtype_of("llama", kF32, kQ8_0), "bf16");
  EXPECT_EQ(dtype_of("gemma3", kF16, kF16), "bf16");
}

GgufWriter yarn() {
  return std::move(model_of("qwen3").add("qwen3.rope.scaling.type", "yarn"));
}

TEST(GgufConfig, TakesEitherNameOfTheFactorOfYarn) {
  for (const char* name : {"attn_factor", "yarn_attn_factor"}) {
    const Result<Json> config = translate(yarn()
                                              .add(std::string("qwen3.rope.scaling.") + name, 0.5F)
                                              .add("qwen3.rope.scaling.yarn_ext_factor", 1.0F));
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->at("rope_scaling").at("attention_factor"), 0.5);
  }
  const auto both = [](float first, float second) {
    return why(yarn()
                   .add("qwen3.rope.scaling.attn_factor", first)
                   .add("qwen3.rope.scaling.yarn_attn_factor", second));
  };
  EXPECT_EQ(both(0.5F, 0.5F), "");
  EXPECT_THAT(both(0.5F, 1.0F), HasSubstr("'rope.scaling.yarn_attn_factor' is 1"));
  EXPECT_THAT(why(yarn().add("qwen3.rope.scaling.yarn_ext_factor", 0.5F)),
              HasSubstr("'rope.scaling.yarn_ext_factor' is 0.5"));
}

TEST(GgufConfig, RefusesOtherFrequenciesInTheWindowsOfOlmo) {
  const auto with = [](float windowed) {
    return why(model_of("olmo2")
                   .add("olmo2.rope.freq_base", 5e5F)
                   .add("olmo2.rope.freq_base_swa", windowed));
  };
  EXPECT_EQ(with(5e5F), "");
  EXPECT_THAT(with(1e4F), HasSubstr("'rope.freq_base_swa' is 10000"));
}

TEST(GgufConfig, RefusesNumbersThatAreNotFinite) {
  for (const float value :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THAT(why(model_of("llama").add("llama.rope.freq_base", value)),
                HasSubstr("'llama.rope.freq_base' must be a number"));
  }
}

TEST(GgufConfig, RefusesHostileNamesInShortPrintableMessages) {
  const std::string hostile = "\x1b[31m\n" + std::string(900, 'x');
  for (const GgufWriter& writer :
       {model_of(hostile), model_of("llama").add("llama." + hostile, true)}) {
    const std::string message = why(writer);
    EXPECT_THAT(message, HasSubstr("not supported"));
    EXPECT_EQ(message.find_first_of("\x1b\n"), std::string::npos) << message;
    EXPECT_LT(message.size(), 600U);
  }
}

}  // namespace
}  // namespace tandem
