// Requests with adapters that have a tokenizer of their own and tokens that the base does not have,
// over a real engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/engine/server/cluster_fixture.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr TokenId kFirst = 4096;  // behind the base's vocabulary

class AdapterTokenizersTest : public ::testing::Test {
 protected:
  // Writes and loads an adapter "own" with rows for `rows` tokens beyond the base's, and with a
  // tokenizer that has `names` beyond the base's.
  Status load(std::int64_t rows, const std::vector<std::string>& names) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
    std::uniform_real_distribution<float> uniform(-0.1F, 0.1F);
    std::vector<float> values(static_cast<std::size_t>(rows * 256));
    for (float& value : values) value = uniform(random);
    testing::SafetensorsWriter weights;
    weights.add("base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta",
                DType::f32, {rows, 256}, values);
    json indices = json::array();
    for (std::int64_t i = 0; i < rows; ++i) indices.push_back(kFirst + i);
    const json config{{"peft_type", "LORA"},
                      {"r", 4},
                      {"lora_alpha", 8},
                      {"target_modules", json::array()},
                      {"trainable_token_indices", indices}};
    std::ostringstream text;
    text << std::ifstream("data/demo-llama/tokenizer.json").rdbuf();
    json tokenizer = json::parse(text.str());
    for (std::size_t i = 0; i < names.size(); ++i) {
      tokenizer["added_tokens"].push_back({{"id", kFirst + static_cast<TokenId>(i)},
                                           {"content", names[i]},
                                           {"single_word", false},
                                           {"lstrip", false},
                                           {"rstrip", false},
                                           {"normalized", false},
                                           {"special", false}});
    }
    dir_.write("own/adapter_config.json", config.dump());
    dir_.write("own/adapter_model.safetensors", weights.bytes());
    dir_.write("own/tokenizer.json", tokenizer.dump());
    return rest_.engine->engine->load_adapter("own", (dir_.path() / "own").string(), true, false);
  }
  // The status, then the body.
  std::string tokens_of(const std::string& model, const std::string& text) {
    const HttpResponse response = rest_.post(
        "/tokenize", {{"model", model}, {"prompt", text}, {"add_special_tokens", false}});
    return json::parse(response.body)["tokens"].dump();
  }
  json complete(const std::string& model, json more) {
    json body{{"model", model}, {"prompt", "def"}, {"temperature", 0}, {"max_tokens", 3}};
    body.update(more);
    return json::parse(settled(rest_.post("/v1/completions", body)).body);
  }

  testing::TempDir dir_;
  RestEngine rest_;
};

TEST_F(AdapterTokenizersTest, AreThoseOfTheirAdapterAlone) {
  ASSERT_TRUE(load(2, {"<think>", "<tool>"}).ok());
  EXPECT_EQ(tokens_of("own", "<think>"), "[4096]");
  EXPECT_EQ(tokens_of("own", "<tool><think>"), "[4097,4096]");
  EXPECT_EQ(tokens_of("base", "<think>"), tokens_of("python", "<think>"));
  EXPECT_NE(tokens_of("base", "<think>"), "[4096]");
  const auto text = [&](const std::string& model) {
    return rest_.post("/detokenize", {{"model", model}, {"tokens", {4097}}}).body;
  };
  EXPECT_EQ(json::parse(text("own"))["prompt"], "<tool>");
  EXPECT_THAT(text("base"), HasSubstr("from 0 to 4095"));
}

TEST_F(AdapterTokenizersTest, NameTheTokensThatTheirAdapterGenerates) {
  ASSERT_TRUE(load(2, {"<think>", "<tool>"}).ok());
  const json biased{{"logit_bias", {{"4096", 100}}}, {"logprobs", 1}};
  const json answer = complete("own", biased)["choices"][0];
  EXPECT_EQ(answer["text"], "<think><think><think>");
  EXPECT_EQ(answer["logprobs"]["tokens"][2], "<think>");
  const json stopped = complete("own", {{"logit_bias", {{"4096", 100}}}, {"stop", "<think><th"}});
  EXPECT_EQ(stopped["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(stopped["choices"][0]["text"], "");
  EXPECT_THAT(complete("base", biased)["error"]["message"].get<std::string>(),
              HasSubstr("token id 4096"));
  EXPECT_THAT(
      complete("own", {{"logit_bias", {{"4098", 1}}}})["error"]["message"].get<std::string>(),
      HasSubstr("token id 4098"));
}

TEST_F(AdapterTokenizersTest, AreAllowedByConstraintsWhereTheirTextsAre) {
  ASSERT_TRUE(load(2, {"<think>", "<tool>"}).ok());
  const json answer = complete("own", {{"logit_bias", {{"4096", 100}}},
                                       {"guided_choice", {"yes", "no"}},
                                       {"max_tokens", 8}})["choices"][0];
  EXPECT_TRUE(answer["text"] == "yes" || answer["text"] == "no") << answer;
  const json thought = complete("own", {{"logit_bias", {{"4096", 100}}},
                                        {"guided_regex", "(<think>){2}(yes|no)"},
                                        {"logprobs", 1},
                                        {"max_tokens", 8}})["choices"][0];
  EXPECT_THAT(thought["text"].get<std::string>(), StartsWith("<think><think>"));
  EXPECT_EQ(thought["logprobs"]["tokens"][1], "<think>") << "one token";
  EXPECT_EQ(thought["finish_reason"], "stop");
  const json allowed = complete("own", {{"allowed_token_ids", {4097}}})["choices"][0];
  EXPECT_EQ(allowed["text"], "<tool><tool><tool>");
}

TEST_F(AdapterTokenizersTest, AreRefusedWithTokensWithoutRows) {
  const Status beyond = load(2, {"<think>", "<tool>", "<more>"});
  EXPECT_THAT(beyond.message(),
              StartsWith("tokenizer.json of the adapter has tokens up to id 4098"));
  const Status many = load(257, {"<think>"});
  EXPECT_THAT(many.message(), HasSubstr("max_added_tokens"));
  EXPECT_TRUE(load(256, {"<think>"}).ok());
}

}  // namespace
}  // namespace tandem::test
