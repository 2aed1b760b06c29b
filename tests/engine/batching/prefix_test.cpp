// Reused KV changes no answer: prompts with common beginnings, adapters loaded again under other
// names and with other content, evictions and preemptions are compared with an engine without a
// cache.
#include <gtest/gtest.h>

#include <algorithm>
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

const std::filesystem::path kModel = "data/demo-llama";

std::vector<std::string> adapter_folders() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(kModel / "adapters")) {
    folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// Few pages, of 4 tokens each.
EngineOptions options(bool prefix_cache, std::int32_t pages) {
  EngineOptions result = small_engine_options(64);
  result.page_tokens = 4;
  result.num_pages = pages;
  result.prefix_cache = prefix_cache;
  return result;
}

constexpr std::int32_t kRoomy = 512;
constexpr std::int32_t kTokens = 24;  // per answer: more pages than it found when it began

std::unique_ptr<TestEngine> make(bool prefix_cache, std::int32_t pages = kRoomy) {
  return TestEngine::load(kModel, DType::f32, options(prefix_cache, pages));
}

std::vector<TokenId> counted(std::size_t length, TokenId first = 40) {
  std::vector<TokenId> tokens(length);
  for (std::size_t i = 0; i < length; ++i) tokens[i] = first + static_cast<TokenId>(i);
  return tokens;
}

// Runs a request alone; returns its tokens and the number of prompt tokens found in the cache.
std::pair<std::vector<TokenId>, std::int32_t> answer(TestEngine& engine,
                                                     GenerationRequest request) {
  auto generation = engine.engine->submit(std::move(request)).value();
  const std::vector<Collected> collected = collect(*generation);
  return {collected[0].tokens, generation->stats().cached_tokens};
}

TEST(PrefixReuse, ReportsTheTokensThatItFoundAndAlwaysComputesOne) {
  auto engine = make(true);
  EXPECT_EQ(answer(*engine, greedy(counted(16), 4)).second, 0);
  EXPECT_EQ(answer(*engine, greedy(counted(16), 4)).second, 12) << "not the page of the last token";
  EXPECT_EQ(answer(*engine, greedy(counted(17), 4)).second, 16);
  EXPECT_EQ(answer(*engine, greedy(counted(10), 4)).second, 8);
  EXPECT_EQ(engine->engine->stats().prefix_queries, 16U + 16 + 17 + 10);
  EXPECT_EQ(engine->engine->stats().prefix_hits, 12U + 16 + 8);
}

TEST(PrefixReuse, IsOffWhenTheSettingSaysSo) {
  auto engine = make(false);
  (void)answer(*engine, greedy(counted(16), 4));
  EXPECT_EQ(answer(*engine, greedy(counted(16), 4)).second, 0);
  EXPECT_EQ(engine->engine->stats().pages_cached, 0);
  EXPECT_EQ(engine->engine->stats().prefix_queries, 0U);
}

TEST(PrefixReuse, FindsTheAnswerToo) {
  auto engine = make(true);
  std::vector<TokenId> conversation = counted(9);
  const auto first = answer(*engine, greedy(conversation, 12)).first;
  conversation.insert(conversation.end(), first.begin(), first.end());
  conversation.push_back(50);
  // 9 + 12 tokens, of which the last was never computed.
  EXPECT_EQ(answer(*engine, greedy(conversation, 2)).second, 20);
}

TEST(PrefixReuse, SharesThePromptAmongContinuationsOfOneRequest) {
  auto engine = make(true);
  GenerationRequest request = greedy(counted(33), 4);
  request.n = 4;
  const std::vector<Collected> all = run(*engine->engine, request);
  for (const Collected& each : all) EXPECT_EQ(each.tokens, all[0].tokens);
  EXPECT_EQ(engine->engine->stats().prefix_hits, 3U * 32);
  EXPECT_EQ(engine->engine->stats().prompt_tokens, 33U + 3);
  auto plain = make(false);
  EXPECT_EQ(all[0].tokens, answer(*plain, greedy(counted(33), 4)).first);
}

TEST(PrefixReuse, ScoresEveryTokenOfAPromptThatIsCached) {
  auto engine = make(true);
  (void)answer(*engine, greedy(counted(20), 4));
  GenerationRequest request = greedy(counted(20), 2);
  request.prompt_logprobs = true;
  request.num_logprobs = 0;
  EXPECT_EQ(run(*engine->engine, request)[0].prompt_logprobs.size(), 19U);
}

TEST(PrefixReuse, GoesByWhatAnAdapterHoldsNotByItsName) {
  const std::vector<std::string> folders = adapter_folders();
  ASSERT_GE(folders.size(), 2U);
  auto engine = make(true);
  Engine& served = *engine->engine;
  ASSERT_TRUE(served.load_adapter("x", folders[0], false, false).ok());
  ASSERT_TRUE(served.load_adapter("y", folders[0], false, false).ok());
  const auto of_x = answer(*engine, greedy(counted(16), 4, "x"));
  EXPECT_EQ(of_x.second, 0);
  const auto of_y = answer(*engine, greedy(counted(16), 4, "y"));
  EXPECT_EQ(of_y.second, 12) << "the same content under another name";
  EXPECT_EQ(of_y.first, of_x.first);
  EXPECT_EQ(answer(*engine, greedy(counted(16), 4)).second, 0) << "the base is another model";

  ASSERT_TRUE(served.load_adapter("x", folders[1], true, false).ok());
  const auto replaced = answer(*engine, greedy(counted(16), 4, "x"));
  EXPECT_EQ(replaced.second, 0) << "its predecessor's KV";
  auto plain = make(false);
  const std::string name = std::filesystem::path(folders[1]).filename().string();
  EXPECT_EQ(replaced.first, answer(*plain, greedy(counted(16), 4, name)).first);

  ASSERT_TRUE(served.unload_adapter("x").ok());
  ASSERT_TRUE(served.load_adapter("x", folders[0], false, false).ok());
  EXPECT_EQ(answer(*engine, greedy(counted(16), 4, "x")).second, 12);
}

TEST(PrefixReuse, NeverChangesTheTextWhateverIsSharedReloadedEvictedAndPreempted) {
  const unsigned seed = 20261120;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> folders = adapter_folders();
  auto plain = make(false);
  auto cached = make(true, 40);  // 160 tokens
  Engine& served = *cached->engine;
  // The current meaning of the names "0", "1", "2": an index into folders.
  std::map<std::string, std::size_t> holds;
  for (const char* name : {"0", "1", "2"}) {
    holds[name] = random() % folders.size();
    ASSERT_TRUE(served.load_adapter(name, folders[holds[name]], false, false).ok());
  }
  std::map<std::pair<std::string, std::vector<TokenId>>, std::vector<TokenId>> known;
  const auto expected = [&](const std::string& folder, const std::vector<TokenId>& prompt) {
    auto& tokens = known[{folder, prompt}];
    if (tokens.empty()) {
      const std::string name = std::filesystem::path(folder).filename().string();
      tokens = answer(*plain, greedy(prompt, kTokens, name)).first;
    }
    return tokens;
  };
  std::vector<std::vector<TokenId>> prompts = {counted(30), counted(30, 400)};
  // A sanitizer slows everything except the kernels.
  const unsigned kRounds = sanitized() ? 3 : 20;
  for (unsigned round = 0; round < kRounds; ++round) {
    struct Asked {
      std::string folder;
      std::vector<TokenId> prompt;
      std::unique_ptr<Generation> generation;
    };
    std::vector<Asked> asked;
    for (int i = 0; i < 6; ++i) {
      std::vector<TokenId> prompt = prompts[random() % prompts.size()];
      prompt.resize(1 + random() % prompt.size());
      for (std::size_t more = random() % 6; more > 0; --more) {
        prompt.push_back(static_cast<TokenId>(3 + random() % 500));
      }
      const std::string name = random() % 2 == 0 ? "" : std::to_string(random() % 3);
      const std::string folder = name.empty() ? "" : folders[holds[name]];
      auto generation = served.submit(greedy(prompt, kTokens, name));
      ASSERT_TRUE(generation.ok()) << generation.status().message();
      if (random() % 8 == 0) prompts.push_back(prompt);
      asked.push_back({folder, std::move(prompt), std::move(generation).value()});
    }
    // While they run, a name gets other contents.
    const std::string name = std::to_string(random() % 3);
    holds[name] = random() % folders.size();
    if (random() % 2 == 0) {
      ASSERT_TRUE(served.unload_adapter(name).ok());
    }
    ASSERT_TRUE(served.load_adapter(name, folders[holds[name]], true, false).ok());
    for (const Asked& each : asked) {
      if (random() % 16 == 0) each.generation->cancel();
      const std::vector<TokenId> tokens = collect(*each.generation)[0].tokens;
      std::vector<TokenId> wanted = expected(each.folder, each.prompt);
      ASSERT_LE(tokens.size(), wanted.size());
      if (tokens.size() < wanted.size()) wanted.resize(tokens.size());  // the request was cancelled
      ASSERT_EQ(tokens, wanted) << "round " << round << ", adapter " << each.folder;
    }
  }
  const EngineStats stats = served.stats();
  std::printf("seed %u: %zu of %zu prompt tokens found, %zu preemptions\n", seed,
              static_cast<std::size_t>(stats.prefix_hits),
              static_cast<std::size_t>(stats.prefix_queries),
              static_cast<std::size_t>(stats.preemptions));
  EXPECT_GT(stats.prefix_hits, 5U * kRounds);
  EXPECT_GT(stats.preemptions, 0U);
  EXPECT_EQ(stats.pages_kv, 0);
}

}  // namespace
}  // namespace tandem::test
