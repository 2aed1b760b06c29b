// Guarantees for a request, whatever else is in the batch.
#include "engine/batching/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <set>
#include <vector>

#include "engine/model/families/registry.h"
#include "tests/support/failing_device.h"
#include "tests/support/golden.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_device.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

const std::filesystem::path kDemo = "data/demo-llama";

std::vector<TokenId> encode(const TestEngine& engine, const std::string& text) {
  return engine.tokenizer->encode(text, true).value();
}

GenerationRequest sampled(std::vector<TokenId> prompt, std::uint64_t seed) {
  GenerationRequest request = greedy(std::move(prompt), 24);
  request.sampling.temperature = 1;
  request.sampling.seed = seed;
  return request;
}

class EngineTest : public ::testing::Test {
 protected:
  static std::unique_ptr<TestEngine> make(const EngineOptions& options = small_engine_options()) {
    return TestEngine::load(kDemo, DType::f32, options);
  }
};

TEST_F(EngineTest, DrawsBySeedAndPositionAloneWhateverElseIsInTheBatch) {
  auto engine = make();
  const auto prompt = encode(*engine, "def parse(");
  const std::vector<TokenId> alone = run(*engine->engine, sampled(prompt, 42))[0].tokens;
  EXPECT_EQ(run(*engine->engine, sampled(prompt, 42))[0].tokens, alone);
  EXPECT_NE(run(*engine->engine, sampled(prompt, 43))[0].tokens, alone);
  std::vector<std::unique_ptr<Generation>> others;
  for (std::uint64_t seed = 100; seed < 110; ++seed) {
    others.push_back(engine->engine->submit(sampled(encode(*engine, "import os"), seed)).value());
  }
  EXPECT_EQ(run(*engine->engine, sampled(prompt, 42))[0].tokens, alone);
}

TEST_F(EngineTest, DrawsTheSameAfterPreemption) {
  auto roomy = make();
  EngineOptions options = small_engine_options(64);
  options.page_tokens = 4;
  options.num_pages = 16;
  auto tight = make(options);
  std::vector<std::unique_ptr<Generation>> running;
  const auto prompt = encode(*roomy, "The licence says that");
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    running.push_back(tight->engine->submit(sampled(prompt, seed)).value());
  }
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    EXPECT_EQ(collect(*running[seed])[0].tokens,
              run(*roomy->engine, sampled(prompt, seed))[0].tokens);
  }
  EXPECT_GT(tight->engine->stats().preemptions, 0U);
}

TEST_F(EngineTest, LetsARequestStandAsideWhoseReaderIsBehind) {
  EngineOptions options = small_engine_options();
  options.max_num_seqs = 1;
  auto engine = make(options);
  GenerationRequest unread = sampled(encode(*engine, "def parse("), 11);
  unread.ignore_eos = true;
  unread.max_tokens = 64;
  const std::vector<TokenId> whole = run(*engine->engine, unread)[0].tokens;
  unread.max_unread = 4;
  const auto generation = engine->engine->submit(unread).value();
  // The other request gets the only place in the batch long before the first one is computed.
  const auto other = run(*engine->engine, sampled(encode(*engine, "import os"), 12));
  EXPECT_EQ(other[0].tokens.size(), 24U);
  EXPECT_LT(generation->stats().completion_tokens, 12);
  EXPECT_EQ(engine->engine->stats().waiting, 1);
  EXPECT_EQ(collect(*generation)[0].tokens, whole);
  EXPECT_EQ(engine->engine->stats().preemptions, 0U);
}

TEST_F(EngineTest, CountsWhatWaitsForAReaderOverAllContinuations) {
  auto engine = make();
  GenerationRequest unread = sampled(encode(*engine, "def parse("), 11);
  unread.ignore_eos = true;
  unread.max_tokens = 64;
  unread.max_unread = 16;
  unread.n = 8;
  const auto generation = engine->engine->submit(unread).value();
  (void)run(*engine->engine, sampled(encode(*engine, "import os"), 12));
  EXPECT_LT(generation->stats().completion_tokens, 16 + 3 * unread.n);  // a few steps more
  EXPECT_EQ(engine->engine->stats().waiting, unread.n);
  EXPECT_EQ(collect(*generation).size(), 8U);
}

TEST_F(EngineTest, EndsARequestThatStandsAsideWhenItsReaderGoes) {
  auto engine = make();
  GenerationRequest unread = sampled(encode(*engine, "def parse("), 11);
  unread.ignore_eos = true;
  unread.max_tokens = 64;
  unread.max_unread = 2;
  unread.n = 3;
  auto generation = engine->engine->submit(unread).value();
  (void)run(*engine->engine, sampled(encode(*engine, "import os"), 12));
  generation.reset();
  (void)run(*engine->engine, sampled(encode(*engine, "import os"), 12));
  EXPECT_EQ(engine->engine->stats().waiting + engine->engine->stats().running, 0);
}

TEST_F(EngineTest, GivesNDifferentContinuationsOfWhichTheFirstIsThatOfNOne) {
  auto engine = make();
  GenerationRequest request = sampled(encode(*engine, "class "), 7);
  const std::vector<TokenId> single = run(*engine->engine, request)[0].tokens;
  request.n = 4;
  const std::vector<Collected> all = run(*engine->engine, request);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].tokens, single);
  std::set<std::vector<TokenId>> distinct;
  for (const Collected& each : all) {
    EXPECT_EQ(each.finish, FinishReason::length);
    distinct.insert(each.tokens);
  }
  EXPECT_EQ(distinct.size(), 4U);
}

TEST_F(EngineTest, StopsAtAStopStringAcrossTokenBorders) {
  auto engine = make();
  const GoldenCase golden = read_golden("data/golden.json")[0];
  GenerationRequest request = greedy(golden.prompt, 48);
  const std::size_t middle = golden.text.size() / 2;
  request.stop = {golden.text.substr(middle, 9)};
  const Collected got = run(*engine->engine, request)[0];
  EXPECT_EQ(got.text, golden.text.substr(0, golden.text.find(request.stop[0])));
  EXPECT_EQ(got.finish, FinishReason::stop);
  EXPECT_EQ(got.stop_reason, request.stop[0]);
}

TEST_F(EngineTest, StopsAtAStopTokenAndLeavesItOut) {
  auto engine = make();
  const GoldenCase golden = read_golden("data/golden.json")[0];
  GenerationRequest request = greedy(golden.prompt, 48);
  request.stop_token_ids = {golden.output[5]};
  const Collected got = run(*engine->engine, request)[0];
  ASSERT_EQ(got.tokens, std::vector<TokenId>(golden.output.begin(), golden.output.begin() + 5));
  EXPECT_EQ(got.stop_reason, std::to_string(golden.output[5]));
}

TEST_F(EngineTest, BansEndsUntilTheLeastNumberOfTokens) {
  auto engine = make();
  const GoldenCase golden = read_golden("data/golden.json")[0];
  GenerationRequest request = greedy(golden.prompt, 48);
  request.stop_token_ids = {golden.output[5]};
  request.min_tokens = 10;
  const Collected got = run(*engine->engine, request)[0];
  EXPECT_GE(got.tokens.size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_NE(got.tokens[i], golden.output[5]);
}

TEST_F(EngineTest, ReportsPromptLogprobsTheSameInOneStepAndInChunks) {
  auto engine = make();
  EngineOptions options = small_engine_options();
  options.max_prefill_chunk = 5;
  auto chunked = make(options);
  GenerationRequest request =
      greedy(encode(*engine, "Redistribution and use in source and binary"), 4);
  request.prompt_logprobs = true;
  request.num_logprobs = 3;
  const Collected whole = run(*engine->engine, request)[0];
  const Collected parts = run(*chunked->engine, request)[0];
  ASSERT_EQ(whole.prompt_logprobs.size(), request.prompt.size() - 1);
  ASSERT_EQ(parts.prompt_logprobs.size(), request.prompt.size() - 1);
  for (std::size_t i = 0; i < whole.prompt_logprobs.size(); ++i) {
    EXPECT_EQ(whole.prompt_logprobs[i].token, request.prompt[i + 1]);
    EXPECT_NEAR(whole.prompt_logprobs[i].logprob, parts.prompt_logprobs[i].logprob, 1e-3);
    ASSERT_EQ(whole.prompt_logprobs[i].top.size(), 3U);
    EXPECT_GE(whole.prompt_logprobs[i].top[0].second, whole.prompt_logprobs[i].logprob);
  }
}

TEST_F(EngineTest, ScoresAPromptWithoutGenerating) {
  auto engine = make();
  GenerationRequest request = greedy(encode(*engine, "import sys"), 0);
  request.prompt_logprobs = true;
  const Collected got = run(*engine->engine, request)[0];
  EXPECT_TRUE(got.tokens.empty());
  EXPECT_EQ(got.prompt_logprobs.size(), request.prompt.size() - 1);
  EXPECT_EQ(got.finish, FinishReason::length);
}

TEST_F(EngineTest, CancelsWhenTheReaderLetsGo) {
  auto engine = make();
  {
    GenerationRequest request = greedy(encode(*engine, "import"), 400);
    auto generation = engine->engine->submit(request).value();
    ASSERT_TRUE(generation->next(std::chrono::minutes(1)).has_value());
  }
  // The next request is the only one in the engine.
  (void)run(*engine->engine, greedy(encode(*engine, "x"), 2));
  const EngineStats stats = engine->engine->stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.pages_kv, 0);
  EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
}

TEST_F(EngineTest, EndsAReaderWhoWaitsWhenItIsDestroyed) {
  auto engine = make();
  auto generation = engine->engine->submit(greedy(encode(*engine, "import"), 490)).value();
  engine->engine.reset();
  const std::vector<Collected> all = collect(*generation);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(all[0].finish == FinishReason::cancelled || all[0].finish == FinishReason::length);
}

TEST_F(EngineTest, TakesTheMostLikelyTokensWhereTopPIsZero) {
  auto engine = make();
  const std::vector<TokenId> prompt = engine->tokenizer->encode("import os\n", true).value();
  GenerationRequest request = greedy(prompt, 12);
  const std::vector<TokenId> likeliest = run(*engine->engine, request)[0].tokens;
  request.sampling.temperature = 1;
  request.sampling.top_p = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    request.sampling.seed = seed;
    EXPECT_EQ(run(*engine->engine, request)[0].tokens, likeliest);
  }
}

TEST_F(EngineTest, RefusesBadRequestsByName) {
  auto engine = make();
  const auto message = [&](const std::function<void(GenerationRequest&)>& spoil) {
    GenerationRequest request = greedy({0, 5}, 4);
    spoil(request);
    auto result = engine->engine->submit(request);
    return result.ok() ? "accepted" : result.status().message();
  };
  EXPECT_THAT(message([](auto& r) { r.prompt.clear(); }), ::testing::HasSubstr("prompt is empty"));
  EXPECT_THAT(message([](auto& r) { r.prompt[0] = 4096; }), ::testing::HasSubstr("0 .. 4095"));
  EXPECT_THAT(message([](auto& r) { r.prompt[0] = -1; }), ::testing::HasSubstr("token id -1"));
  EXPECT_THAT(message([](auto& r) { r.prompt.assign(512, 1); }), ::testing::HasSubstr("512"));
  EXPECT_THAT(message([](auto& r) { r.adapter = "nobody"; }), ::testing::HasSubstr("'nobody'"));
  EXPECT_THAT(message([](auto& r) { r.sampling.top_p = -0.1; }), ::testing::HasSubstr("top_p"));
  EXPECT_THAT(message([](auto& r) { r.sampling.temperature = -1; }),
              ::testing::HasSubstr("temperature"));
  EXPECT_THAT(message([](auto& r) {
                r.sampling.logit_bias = {{9999, 1}};
              }),
              ::testing::HasSubstr("logit_bias"));
  EXPECT_THAT(message([](auto& r) { r.n = 0; }), ::testing::HasSubstr("n must"));
  EXPECT_EQ(message([](auto&) {}), "accepted");
}

TEST_F(EngineTest, CutsTheAnswerAtTheEndOfTheContext) {
  EngineOptions options = small_engine_options(32);
  auto engine = make(options);
  const Collected got = run(*engine->engine, greedy(std::vector<TokenId>(30, 7), 100))[0];
  EXPECT_EQ(got.tokens.size(), 2U);
  EXPECT_EQ(got.finish, FinishReason::length);
}

TEST_F(EngineTest, RefusesMoreThanTheQueueHolds) {
  EngineOptions options = small_engine_options();
  options.max_num_seqs = 1;
  options.max_queue = 3;
  auto engine = make(options);
  std::vector<std::unique_ptr<Generation>> accepted;
  StatusCode refused = StatusCode::ok;
  for (int i = 0; i < 6; ++i) {
    auto result = engine->engine->submit(greedy({0, 5}, sanitized() ? 120 : 240));
    if (result.ok()) {
      accepted.push_back(std::move(result).value());
    } else {
      refused = result.status().code();
    }
  }
  EXPECT_EQ(refused, StatusCode::resource_exhausted);
  EXPECT_LE(accepted.size(), 4U);
  // If no later time can help, the answer does not ask the client to retry.
  GenerationRequest too_many = greedy({0, 5}, 1);
  too_many.n = 4;
  const Status status = engine->engine->submit(too_many).status();
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("n is 4"));
  EXPECT_THAT(status.message(), ::testing::HasSubstr("max_queue"));
  for (auto& each : accepted) EXPECT_EQ(collect(*each)[0].finish, FinishReason::length);
}

TEST_F(EngineTest, FinishesWhatRunsButTakesNothingNewWhileDraining) {
  auto engine = make();
  auto running = engine->engine->submit(greedy({0, 5}, 50)).value();
  engine->engine->drain();
  EXPECT_FALSE(engine->engine->ready());
  EXPECT_EQ(engine->engine->submit(greedy({0, 5}, 5)).status().code(), StatusCode::unavailable);
  EXPECT_EQ(collect(*running)[0].tokens.size(), 50U);
}

TEST_F(EngineTest, KeepsAnUnloadedAdapterUntilItsRequestsEnd) {
  auto engine = make();
  GoldenCase golden;
  for (const GoldenCase& each : read_golden("data/golden.json")) {
    if (each.adapter == "cheader") golden = each;
  }
  auto running = engine->engine->submit(greedy(golden.prompt, 48, "cheader")).value();
  ASSERT_TRUE(engine->engine->unload_adapter("cheader").ok());
  EXPECT_EQ(engine->engine->submit(greedy({0, 5}, 5, "cheader")).status().code(),
            StatusCode::not_found);
  EXPECT_EQ(engine->engine->unload_adapter("cheader").code(), StatusCode::not_found);
  EXPECT_EQ(collect(*running)[0].tokens, golden.output);
}

TEST_F(EngineTest, ReplacesAnAdapterInPlaceOnlyWhenAsked) {
  auto engine = make();
  const std::string python = (kDemo / "adapters" / "python").string();
  const std::string license = (kDemo / "adapters" / "license").string();
  EXPECT_TRUE(engine->engine->load_adapter("python", python, false, false).ok());  // the same again
  EXPECT_EQ(engine->engine->load_adapter("python", license, false, false).code(),
            StatusCode::already_exists);
  // Checks that the name answers with the contents of `trained_as`.
  const auto expect_answers_of = [&](const std::string& trained_as) {
    for (const GoldenCase& golden : read_golden("data/golden.json")) {
      if (golden.adapter != trained_as || golden.prompt.size() > 15) continue;
      EXPECT_EQ(run(*engine->engine, greedy(golden.prompt, 48, "python"))[0].tokens, golden.output);
    }
  };
  expect_answers_of("python");
  ASSERT_TRUE(engine->engine->load_adapter("python", license, true, false).ok());
  expect_answers_of("license");
}

TEST_F(EngineTest, ReturnsEverySlotOfUnloadedAdapters) {
  EngineOptions options = small_engine_options();
  options.max_adapters = 5;
  auto engine = make(options);  // four are loaded already
  const std::string path = (kDemo / "adapters" / "license").string();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(engine->engine->load_adapter("extra", path, false, false).ok());
    EXPECT_EQ(engine->engine->load_adapter("more", path, false, false).code(),
              StatusCode::resource_exhausted);
    ASSERT_TRUE(engine->engine->unload_adapter("extra").ok());
  }
  EXPECT_EQ(engine->engine->adapters().size(), 4U);
}

TEST_F(EngineTest, EndsForGoodAndSaysWhyWhenItsDeviceIsLost) {
  FailingDevice device(make_test_device());
  const ModelSpec config = load_model_spec(kDemo).value();
  const auto tokenizer = Tokenizer::load(kDemo).value();
  const SteadyClock clock;
  const auto engine =
      std::move(Engine::create(small_engine_options(), config, *make_dummy_weights(1), DType::f32,
                               device, *tokenizer, clock, nullptr))
          .value();
  EXPECT_EQ(run(*engine, greedy({1, 2, 3}, 3))[0].finish, FinishReason::length);
  EXPECT_TRUE(engine->failure().ok());

  device.lose_context();
  const Collected failed = run(*engine, greedy({1, 2, 3}, 200))[0];
  EXPECT_EQ(failed.finish, FinishReason::failed);
  EXPECT_EQ(failed.error.code(), StatusCode::fatal);
  EXPECT_THAT(engine->failure().message(), ::testing::HasSubstr("the context is lost"));
  EXPECT_FALSE(engine->ready());
  const auto refused = engine->submit(greedy({1, 2, 3}, 3));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::unavailable);
  EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("the context is lost"));
}

TEST_F(EngineTest, SaysWhichSettingToChangeWhenOneSequenceDoesNotFit) {
  auto device = make_test_device();
  const ModelSpec config = load_model_spec(kDemo).value();
  const auto tokenizer = Tokenizer::load(kDemo).value();
  const SteadyClock clock;
  EngineOptions options = small_engine_options();
  options.num_pages = 3;
  const auto engine = Engine::create(options, config, *make_dummy_weights(1), DType::f32, *device,
                                     *tokenizer, clock, nullptr);
  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.status().message(), ::testing::HasSubstr("pool_gb"));
}

}  // namespace
}  // namespace tandem::test
