#include "scheduler/cluster/policies/adapter_policies.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/scheduler/cluster/policies/policy_cases.h"

namespace tandem {
namespace {

TEST(HashingPolicy, SendsAnAdapterToTheSameEngineAndAdaptersToAll) {
  const std::vector<EngineView> engines(20, idle_engine());
  std::set<std::int32_t> homes;
  for (std::int32_t adapter = 0; adapter < 500; ++adapter) {
    const EngineIndex home = choose_by("hashing", a_request(8, adapter), engines).engine;
    EXPECT_EQ(home, choose_by("hashing", a_request(8, adapter), engines).engine);
    homes.insert(home.value());
  }
  EXPECT_EQ(homes.size(), 20U);
}

TEST(HashingPolicy, MovesOnlyTheAdaptersOfAnEngineThatGoes) {
  std::vector<EngineView> engines(20, idle_engine());
  std::vector<EngineIndex> before;
  for (std::int32_t adapter = 0; adapter < 500; ++adapter) {
    before.push_back(choose_by("hashing", a_request(8, adapter), engines).engine);
  }
  engines[13].accepts = false;
  int moved = 0;
  for (std::int32_t adapter = 0; adapter < 500; ++adapter) {
    const EngineIndex now = choose_by("hashing", a_request(8, adapter), engines).engine;
    const EngineIndex was = before[static_cast<std::size_t>(adapter)];
    EXPECT_NE(now, engine_at(13));
    if (was != engine_at(13)) {
      EXPECT_EQ(now, was);
    } else {
      ++moved;
    }
  }
  EXPECT_GT(moved, 5);
}

TEST(HashingPolicy, NeverGoesBeyondItsBound) {
  // There is one adapter, so that without a bound all requests would go to its home.
  std::vector<EngineView> engines(10, idle_engine());
  HashingPolicy policy(1, 1.25);
  for (int i = 1; i <= 300; ++i) {
    const Decision decision = policy.choose(a_request(), engines);
    ASSERT_TRUE(decision.chosen());
    EngineView& engine = engines[decision.engine.index()];
    engine = running(engine, 1, 8);
    ASSERT_LE(static_cast<double>(engine.requests()), std::ceil(1.25 * i / 10.0));
  }
}

TEST(HashingPolicy, GivesTheBaseModelToTheLeastLoaded) {
  std::vector<EngineView> engines(3, running(idle_engine(), 4, 8));
  engines[1] = running(idle_engine(), 2, 8);
  EXPECT_EQ(choose_by("hashing", a_request(0, -1), engines).engine, engine_at(1));
}

TEST(AffinityPolicy, PrefersWhereTheAdapterIsActive) {
  std::vector<EngineView> engines(5, running(idle_engine(), 4, 8));
  RouteRequest request = a_request();
  const AdapterHold holds[] = {{engine_at(1), AdapterTier::resident, 0},
                               {engine_at(3), AdapterTier::resident, 2}};
  request.holds = holds;
  EXPECT_EQ(choose_by("affinity", request, engines).engine, engine_at(3));
  engines[3].accepts = false;
  EXPECT_NE(choose_by("affinity", request, engines).engine, engine_at(3));
}

TEST(AffinityPolicy, LeavesAnActiveEngineWithALongQueue) {
  std::vector<EngineView> engines(5, running(idle_engine(), 4, 8));
  engines[3].waiting.requests = 30;
  RouteRequest request = a_request();
  const AdapterHold holds[] = {{engine_at(3), AdapterTier::resident, 2}};
  request.holds = holds;
  EXPECT_NE(choose_by("affinity", request, engines).engine, engine_at(3));
}

TEST(AffinityPolicy, PrefersEnginesThatHaveAPlaceForTheAdapter) {
  std::vector<EngineView> engines(3, idle_engine());
  engines[0].adapter_free_bytes = 0;
  engines[1].adapter_free_bytes = 0;
  engines[2] = running(engines[2], 3, 8);
  EXPECT_EQ(choose_by("affinity", a_request(), engines).engine, engine_at(2));
}

}  // namespace
}  // namespace tandem
