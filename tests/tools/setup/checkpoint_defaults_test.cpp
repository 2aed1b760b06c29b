#include "tools/setup/checkpoint_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/gguf_writer.h"
#include "tests/support/small_model.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

TEST(SamplingDefaults, AreThoseOfTheCheckpoint) {
  const testing::TempDir dir;
  dir.write("generation_config.json",
            R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 50,
                "repetition_penalty": 1.1, "min_p": null, "max_new_tokens": 5})");
  const SamplingParams sampling = read_sampling_defaults(dir.path());
  EXPECT_EQ(sampling.temperature, 0.6);
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.top_k, 50);
  EXPECT_EQ(sampling.min_p, 0);
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
}

TEST(SamplingDefaults, AreThoseThatAGgufFileSuggests) {
  const testing::TempDir dir;
  testing::GgufWriter writer;
  writer.add("general.sampling.temp", 0.6F).add("general.sampling.top_k", 50U);
  writer.add("general.sampling.penalty_repeat", 1.1F);
  dir.write("a.gguf", writer.bytes());
  const SamplingParams sampling = read_sampling_defaults(dir.path() / "a.gguf");
  EXPECT_EQ(sampling.temperature, 0.6);
  EXPECT_EQ(sampling.top_k, 50);
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
}

TEST(SamplingDefaults, AreOpenAisWhereThereAreNoOthers) {
  const testing::TempDir dir;
  EXPECT_EQ(read_sampling_defaults(dir.path()).temperature, 1);
  dir.write("generation_config.json", "{");
  EXPECT_EQ(read_sampling_defaults(dir.path()).top_p, 1);
  dir.write("generation_config.json",
            R"({"temperature": 7, "top_p": "much", "top_k": 1.5, "repetition_penalty": 1.2})");
  const SamplingParams sampling = read_sampling_defaults(dir.path());
  EXPECT_EQ(sampling.temperature, 1);
  EXPECT_EQ(sampling.top_p, 1);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.repetition_penalty, 1.2);
}

class TokenizerEnd : public ::testing::Test {
 protected:
  std::vector<TokenId> ends() {
    ModelSpec config = test::small_model(1);
    add_tokenizer_end(dir.path(), *tokenizer, config);
    return config.eos_token_ids;
  }
  const testing::TempDir dir;
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load("data/demo-llama").value();
  const TokenId user = tokenizer->token_to_id("<|user|>").value();
};

TEST_F(TokenizerEnd, JoinsThoseOfTheConfiguration) {
  dir.write("tokenizer_config.json", R"({"eos_token": "<|user|>"})");
  EXPECT_THAT(ends(), ElementsAre(1, user));
  dir.write("tokenizer_config.json", R"({"eos_token": {"content": "<|user|>", "lstrip": false}})");
  EXPECT_THAT(ends(), ElementsAre(1, user));
  dir.write("tokenizer_config.json", R"({"eos_token": null})");
  dir.write("special_tokens_map.json", R"({"eos_token": "<|user|>"})");
  EXPECT_THAT(ends(), ElementsAre(1, user));
}

TEST_F(TokenizerEnd, AddsNothingThatIsThereOrUnknown) {
  EXPECT_THAT(ends(), ElementsAre(1));
  for (const char* const config : {R"({"eos_token": "<|end|>"})", R"({"eos_token": "<|nobody|>"})",
                                   R"({"eos_token": 7})", R"([])", "{"}) {
    dir.write("tokenizer_config.json", config);
    EXPECT_THAT(ends(), ElementsAre(1)) << config;
  }
}

}  // namespace
}  // namespace tandem
