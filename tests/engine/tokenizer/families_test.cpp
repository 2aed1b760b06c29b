// Small tokenizers in the style of each family, compared with Hugging Face tokenizers
// (data/tokenizers/make.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace tandem {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text + decoder.flush();
}

class Families : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string base = std::string("data/tokenizers/") + GetParam();
    auto parsed = Tokenizer::parse(read_text(base + ".json"));
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    tokenizer_ = std::move(*parsed);
    golden_ = nlohmann::json::parse(read_text(base + ".golden.json"));
  }
  std::unique_ptr<Tokenizer> tokenizer_;
  nlohmann::json golden_;
};

TEST_P(Families, EncodeAndDecodeAsHuggingFaceDoes) {
  for (const nlohmann::json& c : golden_.at("cases")) {
    SCOPED_TRACE(c.dump());
    const auto text = c.at("text").get<std::string>();
    const auto expected = c.at("ids").get<std::vector<TokenId>>();
    const auto ids = tokenizer_->encode(text, false);
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(*ids, expected);
    const auto special = tokenizer_->encode(text, true);
    ASSERT_TRUE(special.ok()) << special.status().message();
    EXPECT_EQ(*special, c.at("special").get<std::vector<TokenId>>());
    EXPECT_EQ(tokenizer_->decode(expected, false), c.at("decode").get<std::string>());
    EXPECT_EQ(tokenizer_->decode(expected, true), c.at("skip").get<std::string>());
    EXPECT_EQ(stream(*tokenizer_, expected, false), c.at("decode").get<std::string>());
    EXPECT_EQ(stream(*tokenizer_, expected, true), c.at("skip").get<std::string>());
  }
}

TEST_P(Families, DecodeBrokenSequencesAsHuggingFaceDoes) {
  for (const nlohmann::json& c : golden_.at("streams")) {
    SCOPED_TRACE(c.dump());
    const auto ids = c.at("ids").get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer_->decode(ids, false), c.at("decode").get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, Families,
                         testing::Values("gpt2", "gpt2_prefix", "llama3", "qwen2", "cased",
                                         "digits", "added", "llama2", "mistral", "metaspace_always",
                                         "metaspace_never", "gemma"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace tandem
