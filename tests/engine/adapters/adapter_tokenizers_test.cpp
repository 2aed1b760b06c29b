#include "engine/adapters/adapter_tokenizers.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

namespace tandem {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string text_of_base() {
  std::ostringstream text;
  text << std::ifstream("data/tiny-llama/tokenizer.json").rdbuf();
  return text.str();
}

// With another token behind the base's.
std::string grown(const std::string& name) {
  json tokenizer = json::parse(text_of_base());
  tokenizer["added_tokens"].push_back({{"id", tokenizer["model"]["vocab"].size()},
                                       {"content", name},
                                       {"single_word", false},
                                       {"lstrip", false},
                                       {"rstrip", false},
                                       {"normalized", false},
                                       {"special", true}});
  return tokenizer.dump();
}

TEST(AdapterTokenizers, LeaveACopyOfTheBasesToTheBase) {
  const auto base = Tokenizer::parse(text_of_base()).value();
  AdapterTokenizers tokenizers(*base);
  EXPECT_EQ(tokenizers.find(text_of_base()).value(), nullptr);
  EXPECT_EQ(tokenizers.find(text_of_base()).value(), nullptr);
  EXPECT_EQ(tokenizers.find(json::parse(text_of_base()).dump()).value(), nullptr);
  EXPECT_FALSE(tokenizers.find("{").ok());
}

TEST(AdapterTokenizers, AreSharedByFoldersWithTheSameFile) {
  const auto base = Tokenizer::parse(text_of_base()).value();
  AdapterTokenizers tokenizers(*base);
  const auto first = tokenizers.find(grown("<a>")).value();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->vocab_size(), base->vocab_size() + 1);
  EXPECT_EQ(tokenizers.find(grown("<a>")).value(), first);
  const auto other = tokenizers.find(grown("<b>")).value();
  EXPECT_NE(other, first);
  EXPECT_TRUE(other->token_to_id("<b>"));
}

TEST(AdapterTokenizers, MayHaveTheIdsOfTheirRowsAlone) {
  const auto base = Tokenizer::parse(text_of_base()).value();
  AdapterTokenizers tokenizers(*base);
  const auto own = tokenizers.find(grown("<a>")).value();
  const auto rows = static_cast<std::int64_t>(base->vocab_size());
  EXPECT_TRUE(tokenizers.check(nullptr, 1).ok());
  EXPECT_TRUE(tokenizers.check(own.get(), rows + 1).ok());
  EXPECT_THAT(tokenizers.check(own.get(), rows).message(), HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace tandem
