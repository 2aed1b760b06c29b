#include "engine/server/messages/request/request_parsing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/http/auth.h"
#include "base/log/log.h"
#include "engine/server/messages/json_body.h"
#include "tests/engine/server/fake_service.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using nlohmann::json;

GenerationRequest parse(const json& body, bool chat = false) {
  CompletionCall call;
  std::vector<GenerationRequest> requests;
  auto error = parse_call(body, chat, 256, call);
  if (!error) error = make_requests(call, ByteCodec(), 64, requests);
  EXPECT_FALSE(error.has_value()) << error->message;
  return requests.empty() ? GenerationRequest{} : requests.front();
}

TEST(RequestParsing, PassesEveryOptionOn) {
  const GenerationRequest request = parse(json::parse(R"({
      "prompt": "p", "max_tokens": 20, "min_tokens": 2, "temperature": 0.5, "top_p": 0.9,
      "top_k": 40, "min_p": 0.1, "presence_penalty": -1, "frequency_penalty": 1.5,
      "repetition_penalty": 1.25, "logit_bias": {"5": -100, "256": 2.5}, "seed": -7,
      "stop": ["a", "é"], "stop_token_ids": [1, 2], "ignore_eos": true, "n": 3, "logprobs": 4,
      "echo": true, "priority": -5, "skip_special_tokens": false,
      "include_stop_str_in_output": true})"));
  EXPECT_EQ(request.prompt, (std::vector<TokenId>{256, 'p'}));
  EXPECT_EQ(request.max_tokens, 20);
  EXPECT_EQ(request.min_tokens, 2);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_EQ(request.sampling.min_p, 0.1);
  EXPECT_EQ(request.sampling.presence_penalty, -1);
  EXPECT_EQ(request.sampling.frequency_penalty, 1.5);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.25);
  ASSERT_EQ(request.sampling.logit_bias.size(), 2U);
  EXPECT_EQ(request.sampling.seed, static_cast<std::uint64_t>(-7));
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "é"}));
  EXPECT_EQ(request.stop_token_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_EQ(request.n, 3);
  EXPECT_EQ(request.num_logprobs, 4);
  EXPECT_TRUE(request.prompt_logprobs);
  EXPECT_EQ(request.priority, -5);
  EXPECT_FALSE(request.skip_special_tokens);
  EXPECT_TRUE(request.include_stop);
}

TEST(RequestParsing, FillsInOpenAisDefaults) {
  const GenerationRequest request = parse({{"prompt", "p"}});
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_EQ(request.sampling.top_p, 1);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_EQ(request.sampling.repetition_penalty, 1);
  EXPECT_FALSE(request.sampling.seed.has_value());
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.num_logprobs, -1);
  EXPECT_FALSE(request.prompt_logprobs);
}

TEST(RequestParsing, TakesTheBoundsThemselves) {
  EXPECT_EQ(parse({{"prompt", "p"}, {"temperature", 0}}).sampling.temperature, 0);
  EXPECT_EQ(parse({{"prompt", "p"}, {"temperature", 2}}).sampling.temperature, 2);
  EXPECT_EQ(parse({{"prompt", "p"}, {"top_p", 0}}).sampling.top_p, 0);
  EXPECT_EQ(parse({{"prompt", "p"}, {"top_k", -1}}).sampling.top_k, 0);
  EXPECT_EQ(parse({{"prompt", "p"}, {"logprobs", 0}}).num_logprobs, 0);
  EXPECT_EQ(parse({{"prompt", "p"}, {"max_tokens", 16.0}}).max_tokens, 16);
  EXPECT_EQ(*parse({{"prompt", "p"}, {"seed", 9223372036854775807}}).sampling.seed,
            9223372036854775807U);
  EXPECT_EQ(
      *parse({{"prompt", "p"}, {"seed", std::numeric_limits<std::int64_t>::min()}}).sampling.seed,
      std::uint64_t{1} << 63);
  EXPECT_EQ(parse({{"prompt", "p"}, {"stop", "x"}}).stop, std::vector<std::string>{"x"});
}

TEST(RequestParsing, CutsMaxTokensToTheContext) {
  EXPECT_EQ(parse({{"prompt", "p"}, {"max_tokens", 1000}}).max_tokens, 62);
}

TEST(RequestParsing, PrefersTheNewNameOfMaxTokens) {
  EXPECT_EQ(parse({{"prompt", "p"}, {"max_tokens", 5}, {"max_completion_tokens", 7}}).max_tokens,
            7);
  EXPECT_EQ(
      parse({{"prompt", "p"}, {"max_completion_tokens", 7}, {"max_tokens", nullptr}}).max_tokens,
      7);
}

TEST(RequestParsing, WarnsOfAnUnknownFieldOnceAndOnOneLine) {
  log::set_level(log::Level::warning);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) (void)parse({{"prompt", "p"}, {"never\nheard", 1}});
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
  EXPECT_NE(told.find("never\\nheard"), std::string::npos) << told;
}

// Property: parsing any bytes ends with an object or an error, and an accepted body is UTF-8 that
// can be dumped again.
TEST(JsonBody, SurvivesMutatedBodies) {
  log::set_level(log::Level::off);
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string good =
      R"({"prompt": ["aé😀", "b\u20ac"], "logit_bias": {"5": -1.5e1}, "stop": null, "n": 2})";
  for (int i = 0; i < 20000; ++i) {
    std::string body = good;
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
      body[random() % body.size()] = static_cast<char>(random());
    }
    json object;
    if (const auto error = parse_json_body(body, object)) {
      EXPECT_EQ(error->status, 400);
    } else {
      EXPECT_TRUE(object.is_object());
      EXPECT_NO_THROW((void)object.dump());
      CompletionCall call;
      (void)parse_call(object, false, 256, call);
    }
  }
}

TEST(Auth, ComparesTheWholeKey) {
  EXPECT_TRUE(authorized("Bearer key", "key"));
  EXPECT_TRUE(authorized("BEARER key", "key"));
  for (const char* wrong : {"", "key", "Bearer", "Bearer ", "Bearer ke", "Bearer keykey",
                            "Bearer kez", "Bearer  key", "Basic key"}) {
    EXPECT_FALSE(authorized(wrong, "key")) << wrong;
  }
}

}  // namespace
}  // namespace tandem
