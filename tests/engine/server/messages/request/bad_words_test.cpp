// Checks bad_words with the tokens of real tokenizers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engine/server/messages/request/request_parsing.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {
namespace {

using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

class BadWords : public ::testing::Test {
 protected:
  void use(const std::string& family) {
    std::ifstream file("data/tokenizers/" + family + ".json", std::ios::binary);
    tokenizer_ = Tokenizer::parse(std::string{std::istreambuf_iterator<char>(file), {}}).value();
    codec_ = make_text_codec(*tokenizer_, nullptr);
  }
  // Returns each form's tokens as the vocabulary spells them, joined.
  std::vector<std::string> banned(const std::string& word) {
    CompletionCall call;
    std::vector<GenerationRequest> requests;
    auto error = parse_call({{"prompt", "p"}, {"bad_words", {word}}}, false, 256, call);
    if (!error) error = make_requests(call, *codec_, 64, requests);
    if (error) return {error->message};
    std::vector<std::string> all;
    for (const std::vector<TokenId>& tokens : requests.front().sampling.bad_words) {
      std::string& spelled = all.emplace_back();
      for (const TokenId id : tokens) spelled += tokenizer_->id_to_token(id);
    }
    return all;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<TextCodec> codec_;
};

TEST_F(BadWords, AreBannedBehindASpaceWhateverNumberOfTokensThatTakes) {
  use("gpt2");
  ASSERT_EQ(tokenizer_->encode(" the", false).value().size(), 1U);
  ASSERT_GT(tokenizer_->encode("the", false).value().size(), 1U);
  for (const std::string word : {"the", " the"}) {
    EXPECT_THAT(banned(word), UnorderedElementsAre("\xC4\xA0the", "the")) << word;
  }
}

TEST_F(BadWords, AreBannedWithoutTheSpaceThatATokenizerPutsBeforeATextsFirstWord) {
  for (const char* const family : {"llama2", "mistral"}) {
    use(family);
    EXPECT_THAT(banned("the"), IsSupersetOf({"\xE2\x96\x81the", "the"})) << family;
  }
}

}  // namespace
}  // namespace tandem
