// A model with windowed layers gives back their pages, and reused KV changes no answer: prompts
// longer than the window with common beginnings are compared with an engine without a cache.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/batching/engine.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

const std::filesystem::path kModel = "data/families/gemma2";  // every second layer sees 48 keys
constexpr TokenId kVocabulary = 250;
constexpr std::int32_t kTokens = 12;  // per answer

std::unique_ptr<TestEngine> make(bool prefix_cache, std::int32_t pages, int num_devices = 1) {
  EngineOptions options = small_engine_options(256);
  options.page_tokens = 4;
  options.num_pages = pages;
  options.prefix_cache = prefix_cache;
  options.max_num_batched_tokens = 40;
  return TestEngine::load(kModel, DType::f32, options, num_devices);
}

std::vector<TokenId> drawn(std::mt19937& random, std::size_t count) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(3 + random() % kVocabulary);
  return tokens;
}

GenerationRequest asked(const std::vector<TokenId>& prompt) {
  GenerationRequest request = greedy(prompt, kTokens);
  request.ignore_eos = true;
  return request;
}

TEST(WindowedPrefix, IsFoundBehindThePlaceWhereSequencesPart) {
  std::mt19937 random(1);
  auto engine = make(true, 1024);
  auto plain = make(false, 1024);
  const std::vector<TokenId> system = drawn(random, 100);
  for (int i = 0; i < 3; ++i) {
    std::vector<TokenId> prompt = system;
    const std::vector<TokenId> tail = drawn(random, 60);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    auto generation = engine->engine->submit(asked(prompt)).value();
    EXPECT_EQ(collect(*generation)[0].tokens, run(*plain->engine, asked(prompt))[0].tokens);
    EXPECT_EQ(generation->stats().cached_tokens, i == 0 ? 0 : 100);
  }
}

void compare_with_plain(unsigned seed, int num_devices) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  auto plain = make(false, 1024);
  auto cached = make(true, 100, num_devices);  // one sequence may take 64 + 23
  std::map<std::vector<TokenId>, std::vector<TokenId>> known;
  const auto expected = [&](const std::vector<TokenId>& prompt) {
    auto& tokens = known[prompt];
    if (tokens.empty()) tokens = run(*plain->engine, asked(prompt))[0].tokens;
    return tokens;
  };
  std::vector<std::vector<TokenId>> prompts = {drawn(random, 140), drawn(random, 140)};
  const unsigned kRounds = sanitized() ? 2 : 12;
  for (unsigned round = 0; round < kRounds; ++round) {
    std::vector<std::pair<std::vector<TokenId>, std::unique_ptr<Generation>>> running;
    for (int i = 0; i < 4; ++i) {
      std::vector<TokenId> prompt = prompts[random() % prompts.size()];
      prompt.resize(1 + random() % prompt.size());
      const std::vector<TokenId> tail = drawn(random, random() % 30);
      prompt.insert(prompt.end(), tail.begin(), tail.end());
      if (random() % 8 == 0) prompts.push_back(prompt);
      running.emplace_back(prompt, cached->engine->submit(asked(prompt)).value());
    }
    for (const auto& [prompt, generation] : running) {
      ASSERT_EQ(collect(*generation)[0].tokens, expected(prompt)) << "round " << round;
    }
  }
  const EngineStats stats = cached->engine->stats();
  std::printf("seed %u, %d devices: %zu of %zu prompt tokens found, %zu preemptions\n", seed,
              num_devices, static_cast<std::size_t>(stats.prefix_hits),
              static_cast<std::size_t>(stats.prefix_queries),
              static_cast<std::size_t>(stats.preemptions));
  EXPECT_GT(stats.prefix_hits, 20U * kRounds);
  EXPECT_TRUE(sanitized() || stats.preemptions > 0);
  EXPECT_EQ(stats.pages_kv, 0);
}

TEST(WindowedPrefix, NeverChangesTheTextWhateverIsSharedEvictedAndPreempted) {
  compare_with_plain(20261129, 1);
}

TEST(WindowedPrefix, NeverChangesTheTextOfAModelOnTwoDevices) {
  compare_with_plain(20261130, 2);
}

}  // namespace
}  // namespace tandem::test
