#include "engine/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem {
namespace {

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

std::string stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text + decoder.flush();
}

TEST(Tokenizer, AgreesWithTheGoldenCasesOfTheDemoModel) {
  const auto tokenizer = Tokenizer::load("data/demo-llama");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const nlohmann::json golden = read_json("data/golden.json");
  ASSERT_EQ(golden.at("tokenizer").size(), 67U);
  for (const nlohmann::json& c : golden.at("tokenizer")) {
    SCOPED_TRACE(c.dump());
    std::vector<TokenId> ids;
    if (c.contains("ids_only")) {
      ids = c.at("ids_only").get<std::vector<TokenId>>();
    } else {
      ids = c.at("ids").get<std::vector<TokenId>>();
      const auto text = c.at("text").get<std::string>();
      const auto plain = (*tokenizer)->encode(text, false);
      ASSERT_TRUE(plain.ok()) << plain.status().message();
      EXPECT_EQ(*plain, ids);
      const auto with_special = (*tokenizer)->encode(text, true);
      ASSERT_TRUE(with_special.ok()) << with_special.status().message();
      EXPECT_EQ(*with_special, c.at("ids_with_special").get<std::vector<TokenId>>());
      std::vector<std::string> tokens;
      for (const TokenId id : ids) tokens.emplace_back((*tokenizer)->id_to_token(id));
      EXPECT_EQ(tokens, c.at("tokens").get<std::vector<std::string>>());
    }
    EXPECT_EQ((*tokenizer)->decode(ids, false), c.at("decode").get<std::string>());
    EXPECT_EQ((*tokenizer)->decode(ids, true), c.at("decode_skip_special").get<std::string>());
    EXPECT_EQ(stream(**tokenizer, ids, false), c.at("decode").get<std::string>());
    EXPECT_EQ(stream(**tokenizer, ids, true), c.at("decode_skip_special").get<std::string>());
  }
}

}  // namespace
}  // namespace tandem
