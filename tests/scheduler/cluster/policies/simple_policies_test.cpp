#include "scheduler/cluster/policies/simple_policies.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/scheduler/cluster/policies/policy_cases.h"

namespace tandem {
namespace {

TEST(RandomPolicy, SpreadsEvenlyAndRepeatsWithItsSeed) {
  const std::vector<EngineView> engines(10, idle_engine());
  RandomPolicy first(5);
  RandomPolicy same(5);
  RandomPolicy other(6);
  std::vector<int> counts(10, 0);
  int different = 0;
  for (int i = 0; i < 10'000; ++i) {
    const Decision decision = first.choose(a_request(), engines);
    ASSERT_EQ(decision.engine, same.choose(a_request(), engines).engine);
    different += decision.engine != other.choose(a_request(), engines).engine ? 1 : 0;
    ++counts[decision.engine.index()];
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_GT(different, 8000);
}

TEST(RoundRobinPolicy, TakesTurnsAndSkipsWhoDoesNotAccept) {
  std::vector<EngineView> engines(4, idle_engine());
  engines[2].accepts = false;
  RoundRobinPolicy policy;
  std::vector<std::int32_t> order;
  for (int i = 0; i < 6; ++i) order.push_back(policy.choose(a_request(), engines).engine.value());
  EXPECT_EQ(order, (std::vector<std::int32_t>{0, 1, 3, 0, 1, 3}));
}

TEST(RoundRobinPolicy, SurvivesThatEnginesGo) {
  RoundRobinPolicy policy;
  const std::vector<EngineView> many(5, idle_engine());
  for (int i = 0; i < 4; ++i) (void)policy.choose(a_request(), many);
  const std::vector<EngineView> few(2, idle_engine());
  EXPECT_TRUE(policy.choose(a_request(), few).chosen());
}

TEST(MostIdlePolicy, TakesTheFewestRequestsThenTheFewestTokens) {
  std::vector<EngineView> engines = {running(idle_engine(), 3, 8), running(idle_engine(), 2, 64),
                                     running(idle_engine(), 2, 64), running(idle_engine(), 4, 8)};
  engines[2].running.context_tokens = 50;
  EXPECT_EQ(choose_by("most_idle", a_request(), engines).engine, engine_at(2));
  engines[3].running = {};
  EXPECT_EQ(choose_by("most_idle", a_request(), engines).engine, engine_at(3));
  engines[3].waiting.requests = 9;  // waiting requests count as well
  EXPECT_EQ(choose_by("most_idle", a_request(), engines).engine, engine_at(2));
}

TEST(FirstFitPolicy, TakesTheFirstWithRoomAndWaitsIfNoneHas) {
  std::vector<EngineView> engines = {running(idle_engine(), 32, 8), running(idle_engine(), 31, 8),
                                     idle_engine()};
  EXPECT_EQ(choose_by("first_fit", a_request(), engines).engine, engine_at(1));
  engines[1].kv_free_tokens = 77;  // one less than prompt plus answer
  EXPECT_EQ(choose_by("first_fit", a_request(), engines).engine, engine_at(2));
  engines[2].accepts = false;
  EXPECT_FALSE(choose_by("first_fit", a_request(), engines).chosen());
}

TEST(PunicaPolicy, TakesTheLargestWorkingSetThatFitsAndOfEqualsTheHighestId) {
  std::vector<EngineView> engines = {running(idle_engine(), 20, 8), running(idle_engine(), 20, 8),
                                     running(idle_engine(), 32, 8), running(idle_engine(), 5, 8)};
  EXPECT_EQ(choose_by("punica", a_request(), engines).engine, engine_at(1));
  engines[1].kv_free_tokens = 0;
  EXPECT_EQ(choose_by("punica", a_request(), engines).engine, engine_at(0));
  for (EngineView& engine : engines) engine.running.requests = engine.max_requests;
  EXPECT_FALSE(choose_by("punica", a_request(), engines).chosen());
}

}  // namespace
}  // namespace tandem
