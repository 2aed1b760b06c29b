// Embeddings: the states of prompts after the last norm, pooled (GenerationRequest::pooling).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/batching/engine.h"
#include "tests/support/test_engine.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

using nlohmann::json;
using Tokens = std::vector<TokenId>;

constexpr const char* kFolder = "data/families/embed";

std::unique_ptr<TestEngine> make(std::int32_t chunk = 0, std::int32_t pages = 512,
                                 const char* folder = kFolder, int devices = 1) {
  EngineOptions options = small_engine_options(128);
  options.page_tokens = 4;
  options.num_pages = pages;
  options.prefix_cache = true;
  options.max_prefill_chunk = chunk;
  return TestEngine::load(folder, DType::f32, options, devices);
}

GenerationRequest pooled(Tokens prompt, Pooling pooling, const std::string& adapter = "") {
  GenerationRequest request = greedy(std::move(prompt), 0, adapter);
  request.pooling = pooling;
  return request;
}

// Reads a request to its end; the test fails if that does not come within a minute.
std::vector<float> state_of(Generation& generation) {
  while (const auto delta = generation.next(std::chrono::minutes(1))) {
    EXPECT_TRUE(delta->tokens.empty());
    if (delta->finish == FinishReason::none) continue;
    EXPECT_EQ(delta->finish, FinishReason::length) << delta->error.message();
    return delta->pooled;
  }
  ADD_FAILURE() << "no answer";
  return {};
}

std::vector<float> state_of(TestEngine& engine, GenerationRequest request) {
  return state_of(*engine.engine->submit(std::move(request)).value());
}

std::vector<float> of_length_one(std::vector<float> state) {
  double squares = 0;
  for (const float x : state) squares += static_cast<double>(x) * x;
  for (float& x : state) x = static_cast<float>(x / std::sqrt(squares));
  return state;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, float tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance) << what << ", number " << i;
  }
}

// Asks for all of the folder's goldens, one at a time.
void expect_goldens(TestEngine& engine, const std::string& folder) {
  const json golden = json::parse(std::ifstream(folder + "/golden_embed.json"));
  for (const json& each : golden["cases"]) {
    const auto prompt = golden["prompts"][each["prompt"].get<std::size_t>()]["ids"].get<Tokens>();
    const auto adapter = each["adapter"].get<std::string>();
    for (const auto& [name, pooling] :
         {std::pair{"last", Pooling::last}, {"mean", Pooling::mean}}) {
      const auto got = state_of(engine, pooled(prompt, pooling, adapter == "base" ? "" : adapter));
      expect_near(of_length_one(got), each[name].get<std::vector<float>>(), 2e-3F,
                  adapter + ", " + name);
    }
  }
}

TEST(Pooling, MatchesTheGoldensOfBaseAndAdapters) {
  for (const int devices : {1, 2}) expect_goldens(*make(0, 512, kFolder, devices), kFolder);
}

TEST(Pooling, MatchesTheGoldensOfABaseWithoutAHead) {
  constexpr const char* kBare = "data/families/embed-bare";
  auto engine = make(0, 512, kBare);
  expect_goldens(*engine, kBare);
  const auto refused = engine->engine->submit(greedy({1, 2}, 3));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("no head"), std::string::npos);
}

TEST(Pooling, IsTheSameForAnyChunksAndBesideGenerations) {
  std::mt19937_64 random(test_seed());
  auto whole = make();
  for (const std::int32_t chunk : {1, 3, 16}) {
    auto engine = make(chunk, 48);  // few pages: sequences are preempted
    std::vector<std::unique_ptr<Generation>> writers;
    std::vector<std::pair<std::unique_ptr<Generation>, std::vector<float>>> pools;
    for (int i = 0; i < 12; ++i) {
      Tokens prompt(1 + random() % 60);
      for (TokenId& token : prompt) token = static_cast<TokenId>(random() % 512);
      const Pooling pooling = random() % 2 == 0 ? Pooling::last : Pooling::mean;
      const std::string adapter = random() % 2 == 0 ? "" : "causal";
      writers.push_back(engine->engine->submit(greedy(prompt, 20, adapter)).value());
      auto generation = engine->engine->submit(pooled(prompt, pooling, adapter)).value();
      pools.emplace_back(std::move(generation), state_of(*whole, pooled(prompt, pooling, adapter)));
    }
    for (const auto& [generation, want] : pools) {
      expect_near(state_of(*generation), want, 1e-4F, "chunks of " + std::to_string(chunk));
      EXPECT_EQ(generation->stats().completion_tokens, 0);
    }
    for (const auto& writer : writers) collect(*writer);
  }
}

TEST(Pooling, TheMeanOfAPromptThatIsCachedIsThatOfAllItsTokens) {
  auto engine = make();
  Tokens prompt(40);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(7 * i % 512);
  const auto first = state_of(*engine, pooled(prompt, Pooling::mean));
  (void)state_of(*engine, pooled(prompt, Pooling::last));  // finds the prompt in the cache
  expect_near(state_of(*engine, pooled(prompt, Pooling::mean)), first, 1e-5F, "again");
}

TEST(Pooling, ComesWithoutText) {
  auto engine = make();
  GenerationRequest two = pooled({1, 2}, Pooling::last);
  two.n = 2;
  EXPECT_FALSE(engine->engine->submit(std::move(two)).ok());
  GenerationRequest text = pooled({1, 2}, Pooling::last);
  text.max_tokens = 3;
  EXPECT_FALSE(engine->engine->submit(std::move(text)).ok());
}

}  // namespace
}  // namespace tandem::test
