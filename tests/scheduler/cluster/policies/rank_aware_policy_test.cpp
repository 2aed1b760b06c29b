#include "scheduler/cluster/policies/rank_aware_policy.h"

#include <gtest/gtest.h>

#include "tests/scheduler/cluster/policies/policy_cases.h"

namespace tandem {
namespace {

// Figure 5 of the CaraServe paper: instance 1 runs 24 requests of rank 32, instance 2 runs 16 of
// rank 64, a request of rank 64 arrives, and a decode step may take 36 ms. These costs reproduce
// the figure's printed latencies to a tenth of a millisecond.
constexpr StepCosts kFigureBgmv{.kernel = LoraKernel::bgmv, .step_s = 32.12e-3, .rank_s = 3.55e-6};
constexpr StepCosts kFigureMbgmv{
    .kernel = LoraKernel::mbgmv, .step_s = 33.5e-3, .rank_s = 2.34375e-6};

std::vector<EngineView> figure_engines(const StepCosts& costs) {
  std::vector<EngineView> engines = {running(idle_engine(), 24, 32),
                                     running(idle_engine(), 16, 64)};
  for (EngineView& engine : engines) engine.costs = costs;
  return engines;
}

double step_with_request_ms(const EngineView& engine) {
  DecodeLoad load = engine.all();
  load.add(a_request(64).decode());
  return engine.costs.decode_time_s(load) * 1e3;
}

PolicyOptions figure_options() {
  PolicyOptions options;
  options.slo_decode_s = 36e-3;
  return options;
}

TEST(RankAwarePolicy, ChoosesInstance2OfFigure5WithBgmv) {
  const auto engines = figure_engines(kFigureBgmv);
  EXPECT_NEAR(engines[0].costs.decode_time_s(engines[0].running) * 1e3, 34.8, 0.05);
  EXPECT_NEAR(engines[1].costs.decode_time_s(engines[1].running) * 1e3, 35.8, 0.05);
  EXPECT_GT(step_with_request_ms(engines[0]), 36);
  EXPECT_LT(step_with_request_ms(engines[1]), 36);
  EXPECT_EQ(choose_by("rank_aware", a_request(64), engines, figure_options()).engine, engine_at(1));
}

TEST(RankAwarePolicy, ChoosesInstance1OfFigure5WithMbgmv) {
  const auto engines = figure_engines(kFigureMbgmv);
  EXPECT_NEAR(engines[0].costs.decode_time_s(engines[0].running) * 1e3, 35.3, 0.05);
  EXPECT_NEAR(engines[1].costs.decode_time_s(engines[1].running) * 1e3, 35.9, 0.05);
  EXPECT_LT(step_with_request_ms(engines[0]), 36);
  EXPECT_GT(step_with_request_ms(engines[1]), 36);
  EXPECT_EQ(choose_by("rank_aware", a_request(64), engines, figure_options()).engine, engine_at(0));
}

TEST(RankAwarePolicy, CostIsTheAlgorithmsOfThePaper) {
  EngineView engine = running(idle_engine(), 10, 16);
  engine.waiting = {.requests = 1, .tokens = 40, .rank_tokens = 40 * 8, .rank_max = 8};
  engine.waiting_rank_sum = 8;
  const StepCosts& c = engine.costs;
  const double prefill = c.prefill_token_s * 20 + c.prefill_rank_token_s * (60 * 64 - 40 * 8);
  const double decode = c.rank_s * (12 * 64 - 11 * 16);
  const Decision decision = choose_by("rank_aware", a_request(64), {engine});
  EXPECT_NEAR(decision.cost, (prefill / 58 + decode) * 11, 1e-12);
  PolicyOptions strict;
  strict.slo_decode_s = 1e-3;
  EXPECT_NEAR(choose_by("rank_aware", a_request(64), {engine}, strict).cost,
              (prefill / 58 + decode + 1) * 11, 1e-9);
}

TEST(RankAwarePolicy, PrefersEnginesWithRoom) {
  // An empty engine would cost nothing by the algorithm, but its KV is full.
  EngineView no_kv = idle_engine();
  no_kv.kv_free_tokens = 10;
  const std::vector<EngineView> engines = {no_kv, running(idle_engine(), 20, 64)};
  EXPECT_EQ(choose_by("rank_aware", a_request(), engines).engine, engine_at(1));
  EXPECT_EQ(choose_by("rank_aware", a_request(), {no_kv}).engine, engine_at(0));
}

TEST(RankAwarePolicy, KeepsLargeRanksFromPaddingSmallOnes) {
  // Both engines have equally many requests, so the one that pads already gets the large rank.
  const std::vector<EngineView> engines = {running(idle_engine(), 12, 8),
                                           running(idle_engine(), 12, 64)};
  EXPECT_EQ(choose_by("rank_aware", a_request(64), engines).engine, engine_at(1));
  EXPECT_EQ(choose_by("rank_aware", a_request(8), engines).engine, engine_at(0));
}

}  // namespace
}  // namespace tandem
