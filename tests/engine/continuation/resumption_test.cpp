// Earlier output is repeated unchanged, and output that is impossible is refused.
#include "engine/continuation/resumption.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace tandem {
namespace {

const Tokenizer& demo_tokenizer() {
  static const auto tokenizer = Tokenizer::load("data/demo-llama").value();
  return *tokenizer;
}

std::vector<TokenId> encode(const std::string& text) {
  return demo_tokenizer().encode(text, false).value();
}

class ResumptionTest : public ::testing::Test {
 protected:
  ResumptionTest() {
    request.prompt = {2};
    request.max_tokens = 64;
  }
  Result<Continuations> make() const {
    return make_continuations(request, demo_tokenizer(), eos, nullptr, vocab_size);
  }
  GenerationRequest request;
  std::vector<TokenId> eos{3};
  std::int64_t vocab_size = static_cast<std::int64_t>(demo_tokenizer().vocab_size());
};

TEST_F(ResumptionTest, SaysNothingOfARequestThatBegins) {
  request.n = 3;
  const auto made = make();
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->all.size(), 3U);
  EXPECT_TRUE(made->said.empty());
  EXPECT_EQ(made->num_tokens, 0);
}

TEST_F(ResumptionTest, SaysTheTextOfEachTokenAgain) {
  const std::vector<TokenId> tokens = encode("class Reader:\n    def close(self):\n");
  request.before = {{tokens, false}};
  auto made = make();
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(made->said.size(), 1U);
  const OutputDelta& said = made->said.front();
  EXPECT_TRUE(said.is_before);
  EXPECT_EQ(said.tokens, tokens);
  EXPECT_EQ(said.finish, FinishReason::none);
  OutputText fresh(demo_tokenizer(), true, {}, false);
  ASSERT_EQ(said.text_ends.size(), tokens.size());
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    text += fresh.push(tokens[i], true);
    EXPECT_EQ(said.text_ends[i], text.size()) << "token " << i;
  }
  EXPECT_EQ(said.text, text);
  // Generation continues after the earlier tokens.
  const std::vector<TokenId> more = encode("        self.fp.close()");
  for (const TokenId token : more) {
    EXPECT_EQ(made->all.front().text.push(token, true), fresh.push(token, true));
  }
}

TEST_F(ResumptionTest, SaysTheSpaceBehindThePromptAgain) {
  std::ifstream file("data/tokenizers/llama2.json", std::ios::binary);
  const auto tokenizer =
      Tokenizer::parse(std::string{std::istreambuf_iterator<char>(file), {}}).value();
  const TokenId the = tokenizer->token_to_id("\xE2\x96\x81the").value();
  request.prompt = tokenizer->encode("of", true).value();
  request.before = {{{the, the}, false}};
  auto made = make_continuations(request, *tokenizer, {}, nullptr, 759);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->said.front().text, " the the");
  EXPECT_EQ(made->all.front().text.push(the, true), " the");
}

TEST_F(ResumptionTest, HoldsBackTheBeginningOfAStopString) {
  request.stop = {"\n    def close"};
  request.before = {{encode("class Reader:\n    def"), false}};
  const auto made = make();
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->said.front().text, "class Reader:");
  EXPECT_FALSE(made->all.front().is_over);
}

TEST_F(ResumptionTest, EndsWhereTheLastTokenEndsIt) {
  request.before = {{{5, 6, 3}, false}};
  auto made = make();
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->all.front().is_over);
  EXPECT_EQ(made->said.front().finish, FinishReason::stop);
  EXPECT_EQ(made->said.front().end_token, 3);

  request.before = {{{5, 6, 7}, false}};
  request.max_tokens = 3;
  made = make();
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->said.front().finish, FinishReason::length);
}

TEST_F(ResumptionTest, TakesTheRoutersWordForWhatIsOver) {
  request.n = 2;
  request.before = {{{5, 6}, true}, {{}, false}};
  const auto made = make();
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->all[0].is_over);
  EXPECT_FALSE(made->all[1].is_over);
  ASSERT_EQ(made->said.size(), 1U);
  EXPECT_NE(made->said.front().finish, FinishReason::none);
  EXPECT_TRUE(made->said.front().text.empty());
  EXPECT_EQ(made->num_tokens, 2);
}

TEST_F(ResumptionTest, RefusesWhatCannotHaveBeenGenerated) {
  request.before = {{{5, 3, 6}, false}};  // has tokens after the end
  EXPECT_EQ(make().status().code(), StatusCode::invalid_argument);
  request.before = {{{5}, false}, {{5}, false}};  // two choices for a request of one
  EXPECT_FALSE(check_before(request, vocab_size).ok());
  request.before = {{{static_cast<TokenId>(vocab_size)}, false}};
  EXPECT_FALSE(check_before(request, vocab_size).ok());
  request.before = {{{-1}, false}};
  EXPECT_FALSE(check_before(request, vocab_size).ok());
  request.before = {{std::vector<TokenId>(65, 5), true}};
  EXPECT_FALSE(check_before(request, vocab_size).ok());
  request.before = {{std::vector<TokenId>(64, 5), true}};
  EXPECT_TRUE(check_before(request, vocab_size).ok());
}

}  // namespace
}  // namespace tandem
