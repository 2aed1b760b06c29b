// Score heads of bases and adapters (Pooling::classes, Pooling::score).
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "engine/batching/engine.h"
#include "tests/support/test_engine.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Tokens = std::vector<TokenId>;

struct GoldenScore {
  Tokens prompt;
  std::string adapter;  // empty: the base
  std::vector<float> scores;
};

std::vector<GoldenScore> goldens(const std::string& folder) {
  const json golden = json::parse(std::ifstream(folder + "/golden_score.json"));
  std::vector<GoldenScore> all;
  for (const json& each : golden["cases"]) {
    const auto adapter = each["adapter"].get<std::string>();
    all.push_back({golden["prompts"][each["prompt"].get<std::size_t>()]["ids"].get<Tokens>(),
                   adapter == "base" ? "" : adapter, each["logits"].get<std::vector<float>>()});
  }
  return all;
}

std::unique_ptr<TestEngine> make(const std::string& folder, int devices = 1) {
  return TestEngine::load(folder, DType::f32, small_engine_options(128), devices);
}

GenerationRequest scored(Tokens prompt, const std::string& adapter,
                         Pooling pooling = Pooling::classes) {
  GenerationRequest request = greedy(std::move(prompt), 0, adapter);
  request.pooling = pooling;
  return request;
}

std::vector<float> scores_of(Generation& generation) {
  while (const auto delta = generation.next(std::chrono::minutes(1))) {
    if (delta->finish == FinishReason::none) continue;
    EXPECT_EQ(delta->finish, FinishReason::length) << delta->error.message();
    return delta->pooled;
  }
  ADD_FAILURE() << "no answer";
  return {};
}

void expect_near(const std::vector<float>& got, const GoldenScore& golden) {
  ASSERT_EQ(got.size(), golden.scores.size()) << golden.adapter;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], golden.scores[i], 2e-3F) << golden.adapter << ", label " << i;
  }
}

std::string refusal(TestEngine& engine, const std::string& adapter, Pooling pooling) {
  const auto submitted = engine.engine->submit(scored({1, 2}, adapter, pooling));
  return submitted ? "accepted" : submitted.status().message();
}

TEST(Scores, MatchTheGoldensOfBasesAndAdapters) {
  for (const char* folder : {"data/families/score", "data/families/classifier"}) {
    for (const int devices : {1, 2}) {
      auto engine = make(folder, devices);
      for (const GoldenScore& golden : goldens(folder)) {
        const auto generation =
            engine->engine->submit(scored(golden.prompt, golden.adapter)).value();
        expect_near(scores_of(*generation), golden);
      }
    }
  }
}

TEST(Scores, AreTheSameInOneBatchWithOtherHeadsAndWithText) {
  constexpr const char* kFolder = "data/families/score";
  std::mt19937_64 random(test_seed());
  auto engine = make(kFolder);
  std::vector<GoldenScore> golden = goldens(kFolder);
  std::ranges::shuffle(golden, random);
  std::vector<std::unique_ptr<Generation>> scores;
  std::vector<std::unique_ptr<Generation>> writers;
  for (const GoldenScore& each : golden) {
    scores.push_back(engine->engine->submit(scored(each.prompt, each.adapter)).value());
    writers.push_back(engine->engine->submit(greedy(each.prompt, 12, each.adapter)).value());
  }
  for (std::size_t i = 0; i < golden.size(); ++i) {
    expect_near(scores_of(*scores[i]), golden[i]);
    EXPECT_EQ(collect(*writers[i])[0].tokens.size(), 12U);
  }
}

TEST(Scores, NeedAHeadAndOneLabelIfTheyAreOneNumber) {
  auto engine = make("data/families/score");
  EXPECT_THAT(refusal(*engine, "", Pooling::classes), HasSubstr("base model has no score head"));
  EXPECT_THAT(refusal(*engine, "writer", Pooling::classes), HasSubstr("'writer' has no score"));
  EXPECT_THAT(refusal(*engine, "pair", Pooling::score), HasSubstr("'pair' has 2 labels"));
  EXPECT_EQ(refusal(*engine, "pair", Pooling::classes), "accepted");
  EXPECT_EQ(refusal(*engine, "rank", Pooling::score), "accepted");
}

TEST(Scores, ABaseWithAScoreHeadWritesNoText) {
  auto engine = make("data/families/classifier");
  const auto text = engine->engine->submit(greedy({1, 2}, 3));
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(text.status().message(), HasSubstr("/v1/classify"));
  for (const AdapterInfo& adapter : engine->engine->adapters()) {
    EXPECT_EQ(adapter.labels, adapter.name == "head-too" ? 3 : 0) << adapter.name;
  }
}

}  // namespace
}  // namespace tandem::test
