// The memory for an answer is reserved before it runs.
#include "engine/server/answer/answer_price.h"

#include "tests/engine/server/server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;
using AnswerPrice = ServerTest;

constexpr const char* kPath = "/v1/completions";

// A request of 6 KB whose answer has 135 MB and made the server grow by 0.85 GB.
json dear() {
  const json prompt = json::array({std::vector<int>(40, 5), std::vector<int>(40, 5)});
  return {{"prompt", prompt}, {"n", 128}, {"max_tokens", 1}, {"echo", true}, {"logprobs", 20}};
}

TEST_F(AnswerPrice, AboveTheBoundIsRefusedByTheFieldsThatMakeIt) {
  options.max_answer_bytes = 1U << 20;
  start();
  const auto response = post(port, kPath, dear());
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.error("code"), "answer_too_long");
  for (const char* field : {"'n' (128)", "'max_tokens'", "'logprobs'", "'echo'", "the 2 prompts"}) {
    EXPECT_NE(response.error().find(field), std::string::npos) << response.error();
  }
  EXPECT_EQ(service.num_runs(), 0U);
  json less = dear();
  less["n"] = 2;
  EXPECT_EQ(post(port, kPath, less).status, 200);
}

TEST_F(AnswerPrice, OfAllAtOnceIsBoundedUntilSomeHaveBeenSent) {
  std::shared_ptr<FakeRun> first;
  service.script = [](FakeRun&) {};
  const json ask = {{"prompt", "Hi"}, {"max_tokens", 60}, {"logprobs", 5}};
  options.max_answer_bytes = options.max_answers_bytes = 40000;
  start();
  TestCall one(port, "POST", kPath, ask.dump());
  first = service.run(0);
  const auto refused = post(port, kPath, ask);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.error("code"), "answers_full");
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  first->say("there");
  first->finish();
  EXPECT_EQ(one.receive().status, 200);
  service.script = [](FakeRun& run) { run.finish(); };
  // The memory is released when the last byte has been sent, maybe a moment after it was received.
  int status = 429;
  for (int i = 0; i < 1000 && status == 429; ++i) status = post(port, kPath, ask).status;
  EXPECT_EQ(status, 200);
}

TEST_F(AnswerPrice, IsThatOfWhatComesOut) {
  service.script = [](FakeRun& run) {
    OutputDelta delta;
    for (const TokenId token : run.request.prompt) {
      TokenLogprob score{token, -12.5625F, {}};
      for (TokenId id = 0; id < 20; ++id) score.top.emplace_back('a' + id, -1.0F - 0.37F * id);
      delta.prompt_logprobs.push_back(score);
    }
    delta.prompt_logprobs.erase(delta.prompt_logprobs.begin());
    run.push(delta);
    for (std::int32_t i = 0; i < run.request.n; ++i) run.finish(FinishReason::length, i);
  };
  start();
  const auto response = post(port, kPath, dear());
  ASSERT_EQ(response.status, 200) << response.body;

  const json answer = response.json();
  const json& last = answer["choices"][255];
  EXPECT_EQ(last["logprobs"]["tokens"].size(), 40U);

  CompletionCall call;
  call.request.num_logprobs = 20;
  GenerationRequest request;
  request.prompt.assign(40, 5);
  request.n = 128;
  request.max_tokens = 1;
  request.num_logprobs = 20;
  request.prompt_logprobs = true;
  const std::uint64_t price = price_of(call, std::vector(2, request), {});
  EXPECT_GT(price, response.body.size());
  EXPECT_LT(price, 4 * response.body.size());
}

}  // namespace
}  // namespace tandem
