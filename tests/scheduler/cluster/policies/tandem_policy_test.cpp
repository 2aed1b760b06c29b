#include "scheduler/cluster/policies/tandem_policy.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/scheduler/cluster/policies/policy_cases.h"

namespace tandem {
namespace {

TEST(TandemPolicy, ChoosesTheEngineThatHasTheAdapterAmongEqualLoads) {
  const std::vector<EngineView> engines(6, running(idle_engine(), 8, 16));
  RouteRequest request = a_request(16);
  const AdapterHold holds[] = {{engine_at(2), AdapterTier::host, 0},
                               {engine_at(4), AdapterTier::resident, 0}};
  request.holds = holds;
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(4));
  request.holds = std::span(holds).first(1);
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(2));
}

TEST(TandemPolicy, ExplainsEnginesByTheCostThatItChoseBy) {
  std::vector<EngineView> engines(3, running(idle_engine(), 8, 16));
  engines[2] = running(idle_engine(), 16, 16);
  RouteRequest request = a_request(16);
  const AdapterHold holds[] = {{engine_at(1), AdapterTier::resident, 1}};
  const PrefixHit prefixes[] = {{engine_at(2), 16}};
  request.holds = holds;
  request.prefixes = prefixes;
  const auto policy = make_policy("tandem", {}).value();
  const Decision decision = policy->choose(request, engines);
  ASSERT_EQ(decision.engine, engine_at(1));
  const auto cost_s = [&](std::int32_t engine) {
    return policy->explain(request, engines[engine_at(engine).index()], engine_at(engine))->cost_s;
  };
  EXPECT_EQ(cost_s(1), decision.cost);
  EXPECT_GT(cost_s(0), decision.cost);
  EXPECT_GT(cost_s(2), decision.cost);
  const auto others = make_policy("most_idle", {}).value();
  EXPECT_FALSE(others->explain(request, engines[0], engine_at(0)).has_value());
}

TEST(TandemPolicy, LeavesAHolderThatIsFull) {
  std::vector<EngineView> engines(3, running(idle_engine(), 8, 16));
  engines[1] = running(idle_engine(), 32, 16);
  engines[1].waiting = {.requests = 6, .tokens = 200, .rank_tokens = 3200, .rank_max = 16};
  engines[1].waiting_rank_sum = 6 * 16;
  RouteRequest request = a_request(16);
  request.slo_token_s = 48e-3;
  const AdapterHold holds[] = {{engine_at(1), AdapterTier::resident, 30}};
  request.holds = holds;
  EXPECT_NE(choose_by("tandem", request, engines).engine, engine_at(1));
}

TEST(TandemPolicy, SettlesAnAdapterThatNobodyHasWhereItsHashSays) {
  const std::vector<EngineView> engines(30, idle_engine());
  std::vector<int> counts(30, 0);
  for (std::int32_t adapter = 0; adapter < 300; ++adapter) {
    const EngineIndex first = choose_by("tandem", a_request(16, adapter), engines).engine;
    EXPECT_EQ(first, choose_by("tandem", a_request(16, adapter), engines).engine);
    ++counts[first.index()];
  }
  for (const int count : counts) EXPECT_GT(count, 0);
}

TEST(TandemPolicy, WeighsTheLinkAndTheWorkersOfAColdStart) {
  std::vector<EngineView> engines(2, running(idle_engine(), 8, 64));
  RouteRequest request = a_request(64);
  const AdapterHold holds[] = {{engine_at(0), AdapterTier::host, 0},
                               {engine_at(1), AdapterTier::host, 0}};
  request.holds = holds;
  // The queue on the link is so long that the current step does not hide it, and no worker helps.
  engines[0].link_queue_bytes = 2'000'000'000;
  engines[0].free_workers = 0;
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(1));
  std::swap(engines[0], engines[1]);
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(0));
  // Workers replace waiting for a load, so that the same queue costs less with them.
  const EngineView& queued = engines[1];
  EngineView helped = queued;
  helped.free_workers = 12;
  EXPECT_LT(tandem_estimate(request, helped, AdapterTier::host, 0).ttft_s + 0.1,
            tandem_estimate(request, queued, AdapterTier::host, 0).ttft_s);
}

TEST(TandemPolicy, ChoosesTheEngineWhosePrefixCacheHasThePrompt) {
  const std::vector<EngineView> engines(4, running(idle_engine(), 8, 16));
  RouteRequest request = a_request(16);
  request.prompt_tokens = 600;
  const AdapterHold holds[] = {{engine_at(0), AdapterTier::resident, 1},
                               {engine_at(2), AdapterTier::resident, 1}};
  const PrefixHit prefixes[] = {{engine_at(2), 512}};
  request.holds = holds;
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(0));
  request.prefixes = prefixes;
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(2));
}

TEST(TandemPolicy, TakesACachedPrefixForTheTimeOfItsPrefillAndNoMore) {
  // 400 cached prompt tokens outweigh ten more running requests, but not a queue of 2,000 tokens.
  std::vector<EngineView> engines(4, running(idle_engine(), 4, 16));
  const PrefixHit prefixes[] = {{engine_at(1), 400}, {engine_at(3), 100}};
  RouteRequest request = a_request(0, -1);
  request.prompt_tokens = 500;
  request.prefixes = prefixes;
  engines[1] = running(engines[1], 10, 16);
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(1));
  engines[1].waiting = {.requests = 4, .tokens = 2000, .rank_tokens = 0, .rank_max = 0};
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(3));
  engines[3].accepts = false;
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(0));
}

TEST(TandemPolicy, WeighsACachedPrefixAgainstAColdAdapter) {
  const std::vector<EngineView> engines(3, running(idle_engine(), 8, 16));
  RouteRequest request = a_request(64);
  request.prompt_tokens = 600;
  request.slo_token_s = 48e-3;
  const AdapterHold holds[] = {{engine_at(1), AdapterTier::resident, 1}};
  request.holds = holds;
  // The first prefix saves less time than fetch and load take, the second one more.
  const PrefixHit little[] = {{engine_at(2), 32}};
  request.prefixes = little;
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(1));
  const PrefixHit much[] = {{engine_at(2), 590}};
  request.prefixes = much;
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(2));
}

TEST(TandemPolicy, KeepsADeadlineForTheFirstToken) {
  // Engine 0 adds less to the total cost, but its queue exceeds the deadline.
  std::vector<EngineView> engines(2, idle_engine());
  engines[0].waiting = {.requests = 1, .tokens = 2000, .rank_tokens = 0, .rank_max = 0};
  engines[1] = running(idle_engine(), 28, 64);
  RouteRequest request = a_request(64);
  request.expected_tokens = 1;
  request.slo_ttft_s = 0.2;
  EXPECT_GT(tandem_estimate(request, engines[0], AdapterTier::absent, 0).ttft_s, 0.2);
  EXPECT_LT(tandem_estimate(request, engines[1], AdapterTier::absent, 0).ttft_s, 0.2);
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(1));
}

TEST(TandemPolicy, ReplicatesHotAdaptersAndBoundsReplicasOfColdOnes) {
  // Every engine has other requests; the four that hold this adapter have more of them.
  std::vector<EngineView> engines(40, running(idle_engine(), 6, 16));
  std::vector<AdapterHold> holds;
  for (std::int32_t i = 0; i < 4; ++i) {
    engines[static_cast<std::size_t>(i)] = running(idle_engine(), 18, 16);
    holds.push_back({engine_at(i), AdapterTier::resident, 1});
  }
  const auto hot = std::make_unique<TandemPolicy>(PolicyOptions{});
  const auto cold = std::make_unique<TandemPolicy>(PolicyOptions{});
  RouteRequest request = a_request(16, 3);
  request.holds = holds;
  // The adapter is in every request, so its share of forty engines is more than four.
  EXPECT_GE(hot->choose(request, engines).engine, engine_at(4));
  // The adapter is in one of a thousand requests, so it has more engines than it needs.
  for (std::int32_t other = 100; other < 1100; ++other) {
    (void)cold->choose(a_request(16, other), engines);
  }
  EXPECT_LT(cold->choose(request, engines).engine, engine_at(4));
}

// The displayed terms are those that decide.
TEST(CostEstimate, TellsTermsThatMakeUpTheCost) {
  RouteRequest request = a_request(64);
  request.slo_ttft_s = 1e-6;
  EngineView engine = running(idle_engine(), 20, 16);
  engine.waiting = {.requests = 4, .tokens = 80, .rank_tokens = 80 * 16, .rank_max = 16};
  engine.max_requests = 8;
  const CostEstimate estimate = tandem_estimate(request, engine, AdapterTier::absent, 0);
  EXPECT_NEAR(estimate.terms.sum(), estimate.cost_s, 1e-9);
  for (const double term :
       {estimate.terms.wait_s, estimate.terms.compute_s, estimate.terms.others_s,
        estimate.terms.later_s, estimate.terms.misses_s}) {
    EXPECT_GT(term, 0);
  }
}

TEST(CostEstimate, ChargesALoadToAllThatWait) {
  // The load ends before the current step, so nothing stalls for it now.
  const RouteRequest request = a_request(64);
  EngineView engine = running(idle_engine(), 20, 16);
  const auto price_s = [&] {
    return tandem_estimate(request, engine, AdapterTier::host, 0).cost_s -
           tandem_estimate(request, engine, AdapterTier::resident, 0).cost_s;
  };
  const double load_s = engine.cold.load_time_s(request.adapter_bytes);
  EXPECT_NEAR(price_s(), load_s, 1e-9);
  engine.waiting = {.requests = 4, .tokens = 80, .rank_tokens = 80 * 16, .rank_max = 16};
  engine.waiting_rank_sum = 4 * 16;
  EXPECT_NEAR(price_s(), 5 * load_s, 1e-9);
}

TEST(CostEstimate, ChargesAPromptToThoseWhosePromptsShareItsStep) {
  const RouteRequest request = a_request(16);
  const EngineView engine = running(idle_engine(LoraKernel::mbgmv), 8, 16);
  const auto price_s = [&](std::int64_t prompt_tokens, std::int64_t waiting) {
    RouteRequest one = request;
    one.prompt_tokens = prompt_tokens;
    EngineView behind = engine;
    behind.waiting = {
        .requests = waiting, .tokens = 20 * waiting, .rank_tokens = 320 * waiting, .rank_max = 16};
    behind.waiting_rank_sum = 16 * waiting;
    return tandem_estimate(one, behind, AdapterTier::resident, 0).terms.others_s;
  };
  const double few_s = price_s(200, 2) - price_s(20, 2);
  EXPECT_GT(price_s(200, 6) - price_s(20, 6), few_s + 0.1);
  // If more wait than there are places, the earlier ones have begun when its prompt is computed.
  EXPECT_NEAR(price_s(200, 40) - price_s(20, 40), price_s(200, 30) - price_s(20, 30), 1e-9);
}

TEST(CostEstimate, SharesAStepOfPromptsAmongThoseThatComeBeforeIt) {
  const RouteRequest request = a_request(16);
  EngineView engine = running(idle_engine(LoraKernel::mbgmv), 8, 16);
  engine.mixed_steps = false;
  engine.step_ends_s = 0.02;
  const auto others_s = [&](const PromptSteps& steps) {
    return tandem_estimate(request, engine, AdapterTier::resident, 0, 0, steps).terms.others_s;
  };
  // It stops eight requests for a step or for part of one; for two if the last prompt was just now.
  const double alone_s = others_s({});
  EXPECT_GT(alone_s, 8 * engine.costs.step_s);
  EXPECT_LT(others_s({.requests_per_s = 500}), alone_s / 2);
  EXPECT_GT(others_s({.since_last_s = 0.01}), 1.8 * alone_s);
  EXPECT_NEAR(others_s({.since_last_s = 20}), alone_s, 1e-6);
  // After a waiting prompt it only adds its tokens to a step that takes place anyway.
  engine.waiting = {.requests = 1, .tokens = 20, .rank_tokens = 320, .rank_max = 16};
  EXPECT_LT(others_s({.since_last_s = 0.01}), alone_s / 2);
  engine.waiting = {};
  engine.mixed_steps = true;
  EXPECT_EQ(others_s({.requests_per_s = 500, .since_last_s = 0.01}), others_s({}));
}

// 300 requests are ten batches one after another, not one batch that takes too long for all.
TEST(TandemPolicy, ChoosesTheShorterLineUnderOverload) {
  std::vector<EngineView> engines(2, running(idle_engine(LoraKernel::mbgmv), 32, 32));
  const auto wait = [](EngineView& engine, std::int64_t count) {
    engine.waiting = {
        .requests = count, .tokens = 20 * count, .rank_tokens = 640 * count, .rank_max = 32};
    engine.waiting_rank_sum = 32 * count;
    engine.kv_free_tokens -= 78 * count;
  };
  RouteRequest request = a_request(32);
  const std::int64_t shorter = 100;
  wait(engines[0], 2 * shorter);
  wait(engines[1], shorter);
  // A batch with all requests of the shorter queue would just meet the objective, but not one more.
  request.slo_token_s = engines[1].costs.decode_time_s(engines[1].all());
  EXPECT_EQ(choose_by("tandem", request, engines).engine, engine_at(1));
}

TEST(CostEstimate, GrowsWithEverythingThatIsInTheWay) {
  const RouteRequest request = a_request(64);
  const EngineView engine = running(idle_engine(), 8, 16);
  const auto cost = [&](const EngineView& one, AdapterTier tier, std::int64_t cached) {
    return tandem_estimate(request, one, tier, cached).cost_s;
  };
  const double resident = cost(engine, AdapterTier::resident, 0);
  EXPECT_LT(cost(engine, AdapterTier::resident, 10), resident);
  EXPECT_LT(resident, cost(engine, AdapterTier::host, 0));
  EXPECT_LT(cost(engine, AdapterTier::host, 0), cost(engine, AdapterTier::absent, 0));
  EXPECT_LT(resident, cost(running(engine, 1, 16), AdapterTier::resident, 0));
  const RouteRequest small = a_request(16);  // one of rank 64 would cause padding at both engines
  EXPECT_LT(tandem_estimate(small, running(engine, 1, 16), AdapterTier::resident, 0).cost_s,
            tandem_estimate(small, running(engine, 1, 64), AdapterTier::resident, 0).cost_s);
  EngineView full = engine;
  full.max_requests = 8;
  EXPECT_LT(resident, cost(full, AdapterTier::resident, 0));
  EngineView no_kv = engine;
  no_kv.kv_free_tokens = 0;
  EXPECT_LT(resident, cost(no_kv, AdapterTier::resident, 0));
}

}  // namespace
}  // namespace tandem
