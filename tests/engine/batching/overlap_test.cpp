// Steps prepared while the previous one runs, and decode steps replayed from recordings, give the
// same answers as plain steps one after another.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/golden.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_engine.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

const std::filesystem::path kDemo = "data/demo-llama";

// A sanitizer slows everything except the kernels.
const std::size_t kRequests = sanitized() ? 8 : 24;
const int kRounds = sanitized() ? 1 : 2;
const bool kEveryWay = !sanitized();

struct Way {
  const char* name;
  bool overlap;
  std::int32_t max_graph_batch;
};

// A sanitizer runs only the way that includes the code of the others.
std::vector<Way> ways() {
  if (!kEveryWay) return {{"both", true, 64}};
  return {{"overlap", true, 0}, {"graphs", false, 64}, {"both", true, 64}};
}

EngineOptions options_of(const Way& way, const EngineOptions& base) {
  EngineOptions options = base;
  options.overlap = way.overlap;
  options.max_graph_batch = way.max_graph_batch;
  return options;
}

EngineOptions plain(const EngineOptions& base) {
  return options_of({"plain", false, 0}, base);
}

// Requests of every kind: adapters, sampling, penalties, biases, stops, ends, several
// continuations, log-probabilities of prompt and output, constraints, allowed tokens, bad words.
std::vector<GenerationRequest> random_requests(std::mt19937& random, std::size_t count) {
  const std::vector<GoldenCase> cases = read_golden("data/golden.json");
  const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
  std::vector<GenerationRequest> requests;
  for (std::size_t i = 0; i < count; ++i) {
    const GoldenCase& golden = cases[random() % cases.size()];
    GenerationRequest request =
        greedy(golden.prompt, 1 + static_cast<std::int32_t>(random() % 40), golden.adapter);
    request.ignore_eos = chance(50);
    if (chance(40)) {
      request.sampling.temperature = 0.9;
      request.sampling.seed = random();
      if (chance(30)) request.sampling.top_k = 20;
    }
    if (chance(30)) request.sampling.repetition_penalty = 1.3;
    if (chance(20)) request.sampling.presence_penalty = 0.7;
    if (chance(20)) {
      request.sampling.logit_bias = {{golden.output[0], -100.0F}, {golden.output[1], 2.0F}};
    }
    if (chance(30)) request.stop_token_ids = {golden.output[random() % golden.output.size()]};
    if (chance(30) && golden.text.size() > 12) {
      request.stop = {golden.text.substr(random() % (golden.text.size() - 4), 4)};
    }
    if (chance(30)) request.min_tokens = static_cast<std::int32_t>(random() % 12);
    if (chance(20)) request.n = 3;
    if (chance(25)) request.num_logprobs = static_cast<std::int32_t>(random() % 4);
    if (chance(20)) request.prompt_logprobs = true;
    if (chance(10)) request.max_tokens = 0;
    if (chance(25)) {
      const TextConstraint constraints[] = {
          {TextConstraint::Kind::json_schema,
           R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},)"
           R"("required":["a","b"]})"},
          {TextConstraint::Kind::regex, "([a-z]{1,5} )+[0-9]{2}"},
          {TextConstraint::Kind::grammar, "root ::= \"yes\" | \"no\" | \"perhaps\""}};
      request.constraint = constraints[random() % 3];
    }
    if (chance(10)) request.sampling.bad_words = {{golden.output[0]}, {golden.output[1], 7}};
    if (chance(10)) request.sampling.allowed_token_ids = {golden.output[0], 1, 40, 41, 42};
    if (request.constraint.kind != TextConstraint::Kind::none) {
      request.sampling.allowed_token_ids.clear();  // together they may leave nothing
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<std::vector<Collected>> run_all(TestEngine& engine,
                                            const std::vector<GenerationRequest>& requests) {
  std::vector<std::unique_ptr<Generation>> running;
  for (const GenerationRequest& request : requests) {
    running.push_back(engine.engine->submit(request).value());
  }
  std::vector<std::vector<Collected>> results;
  for (auto& each : running) results.push_back(collect(*each));
  return results;
}

void expect_same(const std::vector<Collected>& got, const std::vector<Collected>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t k = 0; k < want.size(); ++k) {
    EXPECT_EQ(got[k].tokens, want[k].tokens);
    EXPECT_EQ(got[k].text, want[k].text);
    EXPECT_EQ(got[k].finish, want[k].finish);
    EXPECT_EQ(got[k].stop_reason, want[k].stop_reason);
    for (const auto& [a, b] : {std::pair(&got[k].logprobs, &want[k].logprobs),
                               std::pair(&got[k].prompt_logprobs, &want[k].prompt_logprobs)}) {
      ASSERT_EQ(a->size(), b->size());
      for (std::size_t i = 0; i < b->size(); ++i) {
        EXPECT_EQ((*a)[i].token, (*b)[i].token);
        EXPECT_NEAR((*a)[i].logprob, (*b)[i].logprob, 1e-3);
        EXPECT_EQ((*a)[i].top.size(), (*b)[i].top.size());
      }
    }
  }
}

void expect_idle(TestEngine& engine) {
  (void)run(*engine.engine, greedy({0, 5}, 1));  // void steps have ended
  const EngineStats stats = engine.engine->stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.pages_kv, 0);
  for (const AdapterInfo& adapter : engine.engine->adapters()) EXPECT_EQ(adapter.running, 0);
}

class Overlap : public ::testing::TestWithParam<Way> {};

void expect_same_answers(const Way& way, const EngineOptions& base, bool must_preempt) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed << " (TANDEM_TEST_SEED)");
  std::mt19937 random(seed);
  auto before = TestEngine::load(kDemo, DType::f32, plain(base));
  auto after = TestEngine::load(kDemo, DType::f32, options_of(way, base));
  for (int round = 0; round < kRounds; ++round) {
    std::vector<GenerationRequest> requests = random_requests(random, kRequests);
    // These begin together and grow to twice the number of pages.
    for (TokenId id = 40; must_preempt && id < 48; ++id) {
      requests.insert(requests.begin(), greedy({0, id}, 40));
      requests.front().ignore_eos = true;
    }
    const auto want = run_all(*before, requests);
    const auto got = run_all(*after, requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "round " << round << " request " << i);
      expect_same(got[i], want[i]);
    }
  }
  if (must_preempt) {
    EXPECT_GT(after->engine->stats().preemptions, 0U);
  }
  expect_idle(*after);
}

TEST_P(Overlap, AnswersTheSameForRandomMixes) {
  expect_same_answers(GetParam(), small_engine_options(), false);
}

TEST_P(Overlap, AnswersTheSameWithPromptsInChunks) {
  EngineOptions options = small_engine_options();
  options.max_prefill_chunk = 3;
  options.max_num_batched_tokens = 24;
  options.max_num_seqs = 9;
  expect_same_answers(GetParam(), options, false);
}

TEST_P(Overlap, AnswersTheSameThroughPreemption) {
  EngineOptions options = small_engine_options(128);
  options.page_tokens = 4;
  options.num_pages = 40;
  expect_same_answers(GetParam(), options, true);
}

// Clients cancel at any time: the others get their answers, and nothing is left behind.
TEST_P(Overlap, SurvivesCancellationAtAnyTime) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed << " (TANDEM_TEST_SEED)");
  std::mt19937 random(seed);
  EngineOptions base = small_engine_options(128);
  base.page_tokens = 4;
  base.num_pages = 60;
  auto before = TestEngine::load(kDemo, DType::f32, plain(base));
  auto after = TestEngine::load(kDemo, DType::f32, options_of(GetParam(), base));
  const std::vector<GenerationRequest> requests = random_requests(random, kRequests);
  const auto want = run_all(*before, requests);
  std::vector<std::unique_ptr<Generation>> running;
  for (const GenerationRequest& request : requests) {
    running.push_back(after->engine->submit(request).value());
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (i % 2 == 0) {
      const auto news = random() % 6;
      for (std::size_t k = 0; k < news && !running[i]->done(); ++k) {
        (void)running[i]->next(std::chrono::minutes(1));
      }
      running[i].reset();
    } else {
      SCOPED_TRACE(::testing::Message() << "request " << i);
      expect_same(collect(*running[i]), want[i]);
    }
  }
  expect_idle(*after);
}

TEST_P(Overlap, ComputesNoStepBeyondTheLastToken) {
  auto engine = TestEngine::load(kDemo, DType::f32, options_of(GetParam(), small_engine_options()));
  (void)run(*engine->engine, greedy({0, 5, 9}, 7));
  EXPECT_EQ(engine->engine->stats().steps, 7U);
  (void)run(*engine->engine, greedy({0, 5, 9}, 1));
  EXPECT_EQ(engine->engine->stats().steps, 8U);
}

TEST_P(Overlap, LeavesTheDeviceNoLongerIdleThanItsStepsTake) {
  auto engine = TestEngine::load(kDemo, DType::f32, options_of(GetParam(), small_engine_options()));
  (void)run(*engine->engine, greedy({0, 5, 9}, 60));
  const EngineStats stats = engine->engine->stats();
  EXPECT_GT(stats.step_seconds_total, 0);
  EXPECT_GE(stats.gap_seconds_total, 0);
  EXPECT_GT(stats.host_seconds_total, 0);
  EXPECT_LT(stats.gap_seconds_total, stats.step_seconds_total);
}

INSTANTIATE_TEST_SUITE_P(Ways, Overlap, ::testing::ValuesIn(ways()),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace tandem::test
