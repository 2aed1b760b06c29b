// Activated LoRA: the adapter acts from the last invocation in the prompt on, and what comes before
// it is the base model's, to the bit, and shared. That its answers are right is for the goldens
// (family_golden_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/batching/engine.h"
#include "engine/batching/line/invocation.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

using Tokens = std::vector<TokenId>;

// The invocations of some adapters of the folder.
const std::map<std::string, Tokens> kInvocations = {
    {"one", {2}}, {"pair", {6, 6}}, {"assistant", {3, 202}}};

std::unique_ptr<TestEngine> make(bool prefix_cache, std::int32_t pages = 512,
                                 std::int32_t chunk = 0, std::int32_t device_adapters = 16) {
  EngineOptions options = small_engine_options(96);
  options.page_tokens = 4;
  options.num_pages = pages;
  options.prefix_cache = prefix_cache;
  options.max_prefill_chunk = chunk;
  options.max_device_adapters = device_adapters;
  return TestEngine::load("data/families/alora", DType::f32, options);
}

Tokens counted(std::size_t length, TokenId first = 40) {
  Tokens tokens(length);
  for (std::size_t i = 0; i < length; ++i) tokens[i] = first + static_cast<TokenId>(i);
  return tokens;
}

Tokens join(const std::vector<Tokens>& parts) {
  Tokens all;
  for (const Tokens& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

struct Answer {
  Tokens tokens;
  std::vector<float> logprobs;
  std::int32_t cached = 0;
};

Answer answer(TestEngine& engine, const Tokens& prompt, const std::string& adapter,
              std::int32_t max_tokens = 6) {
  GenerationRequest request = greedy(prompt, max_tokens, adapter);
  request.num_logprobs = 0;
  auto generation = engine.engine->submit(std::move(request)).value();
  const Collected collected = collect(*generation)[0];
  Answer result{collected.tokens, {}, generation->stats().cached_tokens};
  for (const TokenLogprob& each : collected.logprobs) result.logprobs.push_back(each.logprob);
  return result;
}

TEST(FindInvocation, FindsTheLastStart) {
  EXPECT_EQ(find_invocation({}, Tokens{7}), 0);
  EXPECT_EQ(find_invocation(Tokens{6}, Tokens{6, 1, 6, 1}), 2);
  EXPECT_EQ(find_invocation(Tokens{6, 6}, Tokens{1, 6, 6, 6}), 2) << "overlapping";
  EXPECT_EQ(find_invocation(Tokens{6, 6}, Tokens{6, 1, 6}), std::nullopt);
  EXPECT_EQ(find_invocation(Tokens{6, 6}, Tokens{6}), std::nullopt) << "longer than the prompt";
  EXPECT_EQ(find_invocation(Tokens{6, 6}, Tokens{}), std::nullopt);
}

TEST(ActivatedLora, IsTheBaseToTheBitWithoutAnInvocation) {
  auto engine = make(false);
  const Answer base = answer(*engine, counted(20), "");
  const Answer same = answer(*engine, counted(20), "one");
  EXPECT_EQ(same.tokens, base.tokens);
  EXPECT_EQ(same.logprobs, base.logprobs);
  EXPECT_EQ(engine->engine->stats().adapter_loads, 0U) << "nothing needs the adapter";
  EXPECT_NE(answer(*engine, join({counted(20), {2}}), "one").logprobs,
            answer(*engine, join({counted(20), {2}}), "").logprobs);
}

TEST(ActivatedLora, SharesThePagesBeforeTheInvocationWithTheBaseAndOthers) {
  auto engine = make(true);
  const Tokens before = counted(22);  // five pages, and a part of one
  const auto with = [&](const std::string& name) {
    return join({before, kInvocations.at(name), {90, 91, 92, 93, 94}});
  };
  EXPECT_EQ(answer(*engine, before, "").cached, 0);
  EXPECT_EQ(answer(*engine, with("one"), "one").cached, 20);
  EXPECT_EQ(answer(*engine, with("pair"), "pair").cached, 20);
  EXPECT_EQ(answer(*engine, with("one"), "one").cached, 24) << "a page of its own";
  EXPECT_EQ(answer(*engine, with("one"), "").cached, 20) << "that page is not the base's";
  EXPECT_EQ(answer(*engine, with("one"), "plain").cached, 0) << "it acts on every token";
  // The other way round: the first to compute the pages is an adapter.
  const Tokens other = counted(16, 300);
  EXPECT_EQ(answer(*engine, join({other, {6, 6, 8}}), "pair").cached, 0);
  EXPECT_EQ(answer(*engine, join({other, {8, 8, 8}}), "").cached, 16);
}

TEST(ActivatedLora, KeepsApartPagesInWhichItActsFromDifferentTokens) {
  auto engine = make(true);
  auto plain = make(false);
  // Both prompts have the same first two pages; in the second the invocation starts a token later.
  const Tokens first = join({counted(5), {6, 6, 6}, {9, 9}});
  const Tokens second = join({counted(5), {6, 6, 6}, {6, 9}});
  for (const Tokens& prompt : {first, second, first, second}) {
    EXPECT_EQ(answer(*engine, prompt, "pair").tokens, answer(*plain, prompt, "pair").tokens);
  }
  EXPECT_EQ(answer(*engine, second, "pair").cached, 8);
}

// The answers hold the invocation, which does not count before it is part of a prompt.
TEST(ActivatedLora, GoesOnElsewhereFromWhatItHasSaid) {
  auto engine = make(true);
  // The first prompt holds the invocation as well; without one in the second, the base answers it.
  const std::map<std::string, Tokens> prompts = {
      {"said-one", {0,  277, 236, 414, 301, 428, 49,  256, 398, 141, 26, 8,
                    82, 347, 308, 248, 502, 396, 384, 199, 171, 402, 19}},
      {"said-two", {0,   147, 258, 418, 109, 381, 454, 219, 474, 283, 284, 357, 56,  6,   6,  6,
                    367, 81,  86,  90,  268, 29,  106, 296, 291, 366, 420, 381, 143, 347, 419}}};
  for (const auto& [name, prompt] : prompts) {
    const Tokens whole = answer(*engine, prompt, name, 16).tokens;
    EXPECT_NE(std::ranges::find(whole, 236), whole.end()) << "it says no invocation";
    for (const std::size_t said : {1U, 7U, 14U}) {
      GenerationRequest request = greedy(prompt, 16, name);
      request.before = {{Tokens(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(said))}};
      auto other = make(false, 512, 5);
      Tokens all = run(*other->engine, request)[0].tokens;
      EXPECT_EQ(all, whole) << name << " after " << said;
    }
  }
}

// Whatever is cached, chunked, preempted, evicted and loaded again, in batches of all adapters.
TEST(ActivatedLora, AnswersInAnyBatchAsAlone) {
  const unsigned seed = 20261130;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> names = {"", "one", "pair", "assistant", "plain"};
  auto alone = make(false);
  std::map<std::pair<std::string, Tokens>, Tokens> known;
  const unsigned kEngines = sanitized() ? 2 : 6;
  std::uint64_t hits = 0, preemptions = 0, loads = 0;
  for (unsigned round = 0; round < kEngines; ++round) {
    const auto chunk = static_cast<std::int32_t>(random() % 12);
    auto engine = make(true, 48, chunk, 2);
    std::vector<Tokens> prompts = {counted(30), counted(30, 200)};
    for (int batch = 0; batch < 4; ++batch) {
      std::vector<std::tuple<std::string, Tokens, std::unique_ptr<Generation>>> asked;
      for (int i = 0; i < 8; ++i) {
        Tokens prompt = prompts[random() % prompts.size()];
        prompt.resize(1 + random() % prompt.size());
        const std::string& name = names[random() % names.size()];
        if (const auto at = kInvocations.find(name); at != kInvocations.end()) {
          prompt.insert(prompt.end(), at->second.begin(), at->second.end());
        }
        for (std::size_t more = random() % 6; more > 0; --more) {
          prompt.push_back(static_cast<TokenId>(10 + random() % 400));
        }
        if (random() % 4 == 0 && prompt.size() < 40) prompts.push_back(prompt);
        auto generation = engine->engine->submit(greedy(prompt, 12, name));
        ASSERT_TRUE(generation.ok()) << generation.status().message();
        asked.emplace_back(name, std::move(prompt), std::move(generation).value());
      }
      for (const auto& [name, prompt, generation] : asked) {
        Tokens& expected = known[{name, prompt}];
        if (expected.empty()) expected = answer(*alone, prompt, name, 12).tokens;
        ASSERT_EQ(collect(*generation)[0].tokens, expected)
            << name << ", chunks of " << chunk << ", batch " << batch;
      }
    }
    const EngineStats stats = engine->engine->stats();
    hits += stats.prefix_hits;
    preemptions += stats.preemptions;
    loads += stats.adapter_loads;
  }
  std::printf("seed %u: %llu tokens found, %llu preemptions, %llu loads\n", seed,
              static_cast<unsigned long long>(hits), static_cast<unsigned long long>(preemptions),
              static_cast<unsigned long long>(loads));
  EXPECT_GT(hits, 0U);
  EXPECT_GT(preemptions, 0U);
  EXPECT_GT(loads, 4U * kEngines) << "adapters take turns on the device";
}

}  // namespace
}  // namespace tandem::test
