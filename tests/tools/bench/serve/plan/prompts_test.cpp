#include "tools/bench/serve/plan/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/bench/serve/load_target.h"
#include "tools/bench/serve/plan/request_body.h"

namespace tandem {
namespace {

LoadPrompt of_pieces(std::int32_t tokens) {
  LoadPrompt prompt;
  prompt.pieces = {{5, tokens}};
  prompt.output_tokens = 8;
  return prompt;
}

TEST(PromptMaker, WithoutATokenizerKeepsToPlainIdsAndKnownWords) {
  const PromptMaker maker(400);
  for (const TokenId id : maker.ids_of(of_pieces(1000))) {
    EXPECT_GE(id, PromptMaker::kFirstPlainId);
    EXPECT_LT(id, 400);
  }
  const std::string text = maker.text_of(of_pieces(10));
  EXPECT_EQ(std::ranges::count(text, ' '), 10);
}

TEST(PromptMaker, WithATokenizerLeavesItsSpecialTokensOut) {
  auto tokenizer = Tokenizer::load("data/demo-llama");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const PromptMaker maker(std::move(*tokenizer));
  for (const TokenId id : maker.ids_of(of_pieces(1000))) {
    EXPECT_FALSE(maker.tokenizer()->is_special(id));
  }
  EXPECT_FALSE(maker.text_of(of_pieces(10)).empty());
}

TEST(RequestBody, IsWhatOpenAiServersTake) {
  const PromptMaker maker(1000);
  BodyOptions options;
  options.ignore_eos = true;
  options.sampling["temperature"] = 0;
  options.extra = *parse_extra_body(R"({"top_k": 5, "temperature": 1})");
  auto json = nlohmann::json::parse(request_body(options, "m\"x", of_pieces(3), maker));
  EXPECT_EQ(json["model"], "m\"x");
  EXPECT_EQ(json["max_tokens"], 8);
  EXPECT_EQ(json["stream"], true);
  EXPECT_EQ(json["stream_options"]["include_usage"], true);
  EXPECT_EQ(json["ignore_eos"], true);
  EXPECT_EQ(json["temperature"], 1);
  EXPECT_EQ(json["top_k"], 5);
  EXPECT_EQ(json["prompt"], nlohmann::json(maker.ids_of(of_pieces(3))));

  options.as_text = true;
  json = nlohmann::json::parse(request_body(options, "m", of_pieces(3), maker));
  EXPECT_EQ(json["prompt"], maker.text_of(of_pieces(3)));

  options.dialect = Dialect::chat;
  json = nlohmann::json::parse(request_body(options, "m", of_pieces(3), maker));
  EXPECT_EQ(json["max_completion_tokens"], 8);
  EXPECT_EQ(json["messages"][0]["role"], "user");
  EXPECT_EQ(json["messages"][0]["content"], maker.text_of(of_pieces(3)));

  EXPECT_FALSE(parse_extra_body("[1]").ok());
  EXPECT_FALSE(parse_extra_body("{").ok());
}

TEST(BaseUrl, IsAnAddressWithOrWithoutPortAndPath) {
  const auto parsed = [](const char* url) {
    const auto target = parse_base_url(url);
    return target ? target->address.text() + " " + target->prefix : "refused";
  };
  EXPECT_EQ(parsed("http://h:81"), "http://h:81 ");
  EXPECT_EQ(parsed("http://h:81/"), "http://h:81 ");
  EXPECT_EQ(parsed("h:81/a/b/"), "http://h:81 /a/b");
  EXPECT_EQ(parsed("http://h"), "http://h:80 ");
  EXPECT_EQ(parsed("http://[::1]"), "http://[::1]:80 ");
  EXPECT_EQ(parsed("https://h/v"), "https://h:443 /v");
  EXPECT_EQ(parsed("https://h:8443"), "https://h:8443 ");
  EXPECT_EQ(parsed("https://http://h"), "refused");
  EXPECT_EQ(parsed("http://h:x"), "refused");
  EXPECT_EQ(parsed("http://h/a b"), "refused");
  EXPECT_EQ(parsed(""), "refused");
}

}  // namespace
}  // namespace tandem
