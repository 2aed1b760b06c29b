#include "engine/constraint/added_tokens.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace tandem {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

json base_json() {
  return json::parse(std::ifstream("data/tiny-llama/tokenizer.json"));
}

std::shared_ptr<const Tokenizer> parse(const json& tokenizer) {
  return Tokenizer::parse(tokenizer.dump()).value();
}

json added(std::size_t id, const std::string& name, bool special) {
  return {{"id", id},        {"content", name},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

class Added : public ::testing::Test {
 protected:
  const std::shared_ptr<const Tokenizer> base_ = parse(base_json());
  const std::size_t size_ = base_->vocab_size();
  AddedTokensOfAdapters tokens_{*base_};
};

TEST_F(Added, AreThoseThatTheBaseLacks) {
  json own = base_json();
  own["added_tokens"].push_back(added(size_, "<call>", false));
  own["added_tokens"].push_back(added(size_ + 1, "<|caller|>", true));
  const auto tokenizer = parse(own);
  const auto found = tokens_.find(tokenizer);
  const auto call = static_cast<TokenId>(size_);
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->texts, ElementsAre(Pair(call, "<call>"), Pair(call + 1, "")));
  EXPECT_THAT(found->special, ElementsAre(Pair(call + 1, "<|caller|>")));
  EXPECT_EQ(tokens_.find(tokenizer), found);
  EXPECT_THAT(tokens_.find(parse(base_json()))->texts, IsEmpty());
}

TEST_F(Added, AreWithoutATextWhereTheAdapterMakesATokenOfTheBaseSpecial) {
  json own = base_json();
  own["added_tokens"].push_back(added(300, std::string(base_->id_to_token(300)), true));
  const auto found = tokens_.find(parse(own));
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->texts, ElementsAre(Pair(300, "")));
}

TEST_F(Added, AreUnknownWhereATextOfTheBaseIsAnother) {
  json own = base_json();
  json& vocab = own["model"]["vocab"];
  std::swap(vocab[std::string(base_->id_to_token(300))],
            vocab[std::string(base_->id_to_token(301))]);
  EXPECT_EQ(tokens_.find(parse(own)), nullptr);
}

}  // namespace
}  // namespace tandem
