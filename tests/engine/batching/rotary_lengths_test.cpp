// Rotary embeddings that depend on a sequence's length: when a sequence outgrows the original
// length, when prefixes may be shared, and what preemption and continuation may not change.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

const std::filesystem::path kLongRope = "data/families/phi3_longrope";  // 128 tokens, then long
const std::filesystem::path kDynamic = "data/families/llama_dynamic";   // grows from 80 tokens on

std::vector<TokenId> some_tokens(std::size_t count) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i)
    tokens[i] = static_cast<TokenId>(3 + (i * i + 7 * i) % 500);
  return tokens;
}

EngineOptions options(bool prefix_cache) {
  EngineOptions result = small_engine_options(300);
  result.page_tokens = 4;
  result.prefix_cache = prefix_cache;
  return result;
}

GenerationRequest scored(std::vector<TokenId> prompt, std::int32_t max_tokens) {
  GenerationRequest request = greedy(std::move(prompt), max_tokens);
  request.num_logprobs = 0;
  return request;
}

void expect_alike(const Collected& got, const Collected& want) {
  ASSERT_EQ(got.tokens, want.tokens);
  for (std::size_t i = 0; i < got.tokens.size(); ++i) {
    EXPECT_NEAR(got.logprobs[i].logprob, want.logprobs[i].logprob, 1e-4) << "output token " << i;
  }
}

TEST(RotaryLengths, ASequenceThatOutgrowsTheOriginalLengthIsComputedAgainByTheLongFactors) {
  for (const bool prefix_cache : {false, true}) {
    auto engine = TestEngine::load(kLongRope, DType::f32, options(prefix_cache));
    const std::vector<TokenId> prompt = some_tokens(120);
    const Collected whole = run(*engine->engine, scored(prompt, 20))[0];
    ASSERT_EQ(whole.tokens.size(), 20U);
    // A new prompt of the same tokens has only one choice.
    auto fresh = TestEngine::load(kLongRope, DType::f32, options(false));
    std::vector<TokenId> tokens = prompt;
    for (std::size_t i = 0; i < whole.tokens.size(); ++i) {
      const Collected next = run(*fresh->engine, scored(tokens, 1))[0];
      EXPECT_EQ(next.tokens[0], whole.tokens[i]) << "output token " << i;
      EXPECT_NEAR(next.logprobs[0].logprob, whole.logprobs[i].logprob, 1e-4)
          << "output token " << i;
      tokens.push_back(whole.tokens[i]);
    }
  }
}

TEST(RotaryLengths, PrefixesAreSharedOnlyBySequencesThatRotateAlike) {
  for (const std::filesystem::path& model : {kLongRope, kDynamic}) {
    auto with = TestEngine::load(model, DType::f32, options(true));
    auto without = TestEngine::load(model, DType::f32, options(false));
    for (const std::size_t length : {70U, 200U, 75U, 150U, 200U, 71U}) {
      SCOPED_TRACE(model.string() + ", " + std::to_string(length));
      const GenerationRequest request = scored(some_tokens(length), 12);
      expect_alike(run(*with->engine, request)[0], run(*without->engine, request)[0]);
    }
    EXPECT_GT(with->engine->stats().prefix_hits, 200U);
  }
}

TEST(RotaryLengths, PreemptionAndContinuationChangeNoToken) {
  for (const std::filesystem::path& model : {kLongRope, kDynamic}) {
    SCOPED_TRACE(model.string());
    auto roomy = TestEngine::load(model, DType::f32, options(false));
    EngineOptions few = options(false);
    few.num_pages = 90;  // two of the sequences below fit, and not to their ends
    auto tight = TestEngine::load(model, DType::f32, few);
    std::vector<std::unique_ptr<Generation>> running;
    std::vector<GenerationRequest> requests;
    for (const std::size_t length : {150U, 60U, 110U, 120U}) {
      requests.push_back(scored(some_tokens(length), 40));
      running.push_back(tight->engine->submit(requests.back()).value());
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Collected want = run(*roomy->engine, requests[i])[0];
      expect_alike(collect(*running[i])[0], want);
      GenerationRequest rest = requests[i];
      rest.before = {{std::vector<TokenId>(want.tokens.begin(), want.tokens.begin() + 25), false}};
      EXPECT_EQ(run(*roomy->engine, rest)[0].tokens, want.tokens);
    }
    EXPECT_GT(tight->engine->stats().preemptions, 0U);
  }
}

}  // namespace
}  // namespace tandem::test
