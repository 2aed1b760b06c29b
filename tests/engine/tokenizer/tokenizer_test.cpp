#include "engine/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
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

// The tokenizer with another rule for pairs; null: the file has none.
std::unique_ptr<Tokenizer> with_pair(const nlohmann::json& pair) {
  nlohmann::json file = read_json("data/families/score/tokenizer.json");
  nlohmann::json& processor = file["post_processor"];
  if (pair.is_null()) processor.erase("pair");
  if (!pair.is_null()) processor["pair"] = pair;
  auto tokenizer = Tokenizer::of(file);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

nlohmann::json text(const char* id) {
  return {{"Sequence", {{"id", id}, {"type_id", 0}}}};
}

TEST(Tokenizer, JoinsPairsByTheFilesRule) {
  const nlohmann::json begin{{"SpecialToken", {{"id", "<|begin|>"}, {"type_id", 0}}}};
  const auto plain = with_pair(nullptr);
  const std::vector<TokenId> a = *plain->encode("Hello", false);
  const std::vector<TokenId> b = *plain->encode(" world", false);
  const auto joined = [&](std::initializer_list<std::vector<TokenId>> parts) {
    std::vector<TokenId> ids;
    for (const auto& part : parts) ids.insert(ids.end(), part.begin(), part.end());
    return ids;
  };
  EXPECT_EQ(*plain->encode_pair("Hello", " world"), joined({a, b}));
  const auto both = with_pair({begin, text("A"), begin, text("B"), begin});
  EXPECT_EQ(*both->encode_pair("Hello", " world"), joined({{0}, a, {0}, b, {0}}));
  EXPECT_EQ(*both->encode("Hello", true), joined({{0}, a})) << "the rule of one text";
  for (const auto& other : {nlohmann::json::array({text("B"), text("A")}),
                            nlohmann::json::array({text("A")}), nlohmann::json("AB")}) {
    EXPECT_FALSE(with_pair(other)->encode_pair("Hello", " world").ok()) << other;
  }
}

}  // namespace
}  // namespace tandem
