#include "scheduler/cluster/simulator/simulation.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "scheduler/cluster/simulator/summary.h"

namespace tandem {
namespace {

// A tenth of the paper's cluster for twenty seconds.
SimulationOptions small_cluster(LoraKernel kernel = LoraKernel::bgmv) {
  SimulationOptions options;
  options.machine = *sim_machine("a10", kernel);
  options.engines = 6;
  options.workload.adapters = 4000;
  options.workload.requests_per_s = 34;
  options.workload.duration_s = 25;
  options.warmup_s = 5;
  return options;
}

PolicyResult simulated(const std::string& policy, const SimulationOptions& options) {
  const ManualClock clock;
  auto result = simulate_policy(policy, options, nullptr, clock, {});
  TANDEM_CHECK(result.ok(), "{}", result.status().message());
  return *result;
}

TEST(Simulation, ServesEveryRequestUnderEveryPolicyAndMode) {
  for (const std::string& policy : policy_names()) {
    for (const SimColdStart mode : {SimColdStart::cached, SimColdStart::on_demand,
                                    SimColdStart::async, SimColdStart::cpu_assist}) {
      SimulationOptions options = small_cluster();
      options.cold_start = mode;
      const PolicyResult result = simulated(policy, options);
      SCOPED_TRACE(policy);
      EXPECT_NEAR(static_cast<double>(result.requests), 680, 120);
      EXPECT_EQ(result.unfinished, 0);
      EXPECT_GT(result.ttft_ms.mean, 32);    // at least a step
      EXPECT_GE(result.tpot_ms.p50, 32.12);  // at least a step
      EXPECT_LE(result.ttft_ms.p50, result.ttft_ms.p99);
      EXPECT_GT(result.latency_ms.mean, result.ttft_ms.mean);
      EXPECT_GE(result.slo_attainment, 0);
      EXPECT_LE(result.slo_attainment, 1);
      EXPECT_EQ(result.cold_share > 0, mode != SimColdStart::cached);
    }
  }
}

TEST(Simulation, RepeatsItself) {
  const SimulationOptions options = small_cluster();
  for (const std::string policy : {"random", "tandem"}) {
    const PolicyResult once = simulated(policy, options);
    const PolicyResult again = simulated(policy, options);
    EXPECT_EQ(once.ttft_ms.cdf, again.ttft_ms.cdf);
    EXPECT_EQ(once.loads, again.loads);
    EXPECT_EQ(once.slo_attainment, again.slo_attainment);
  }
}

TEST(Simulation, OfAnOverloadedClusterMissesItsSlo) {
  SimulationOptions options = small_cluster();
  options.workload.requests_per_s = 200;
  const PolicyResult result = simulated("most_idle", options);
  EXPECT_EQ(result.unfinished, 0);
  EXPECT_LT(result.slo_attainment, 0.2);
  EXPECT_GT(result.ttft_ms.p99, 5000);
  const auto workload = Workload::create(options.workload, nullptr);
  ASSERT_TRUE(workload.ok());
  EXPECT_LT(capacity_per_s(options, *workload), 200);
  EXPECT_GT(capacity_per_s(options, *workload), 34);
}

TEST(Simulation, LooksAtItsLinesWhileRequestsCome) {
  SimulationOptions options = small_cluster();
  const PolicyResult calm = simulated("most_idle", options);
  options.workload.requests_per_s = 200;
  const PolicyResult overloaded = simulated("most_idle", options);
  for (const PolicyResult* result : {&calm, &overloaded}) {
    ASSERT_EQ(std::ssize(result->queue), kQueueMoments);
    EXPECT_NEAR(result->queue.back().at_s, 25, 1e-9);
    for (const QueueLength& at : result->queue) {
      EXPECT_LE(at.longest, at.all);
      EXPECT_LE(at.all, at.longest * options.engines) << "none is held before the engines here";
    }
  }
  EXPECT_LT(calm.queue.back().all, 20);
  // The cluster can serve about a quarter of the 200 requests per second, so the others wait.
  EXPECT_GT(overloaded.queue.back().all, 1000);
  EXPECT_GT(overloaded.queue[150].all, overloaded.queue[50].all);
}

TEST(Simulation, GivesUpUnderOverloadWhatWouldComeTooLate) {
  SimulationOptions options = small_cluster();
  options.workload.requests_per_s = 80;
  const PolicyResult all = simulated("most_idle", options);
  options.line.ttft_deadline_s = 1;
  const PolicyResult some = simulated("most_idle", options);
  EXPECT_EQ(all.given_up, 0);
  EXPECT_GT(some.given_up, 0);
  EXPECT_EQ(some.unfinished, 0);
  EXPECT_EQ(some.requests, all.requests);
  EXPECT_LT(some.ttft_ms.p99, 1100);
  EXPECT_GT(some.slo_attainment, all.slo_attainment);
}

TEST(Simulation, HasTheSloOfAModelWithItsAdapterMerged) {
  const SimulationOptions options = small_cluster();
  const auto workload = Workload::create(options.workload, nullptr);
  ASSERT_TRUE(workload.ok());
  // 1.5 times a decode step of the base model with its share of a prefill.
  EXPECT_GT(slo_token_s(options, *workload), 1.5 * 32.12e-3);
  EXPECT_LT(slo_token_s(options, *workload), 1.5 * 33e-3);
}

TEST(Simulation, PutsTandemAheadOfOthersWithColdStarts) {
  // A small version of what docs/simulate.md shows: fewer policies, and not the size of the
  // effects.
  for (const LoraKernel kernel : {LoraKernel::bgmv, LoraKernel::mbgmv}) {
    SimulationOptions options = small_cluster(kernel);
    options.workload.requests_per_s = 60;
    const PolicyResult tandem = simulated("tandem", options);
    for (const std::string other : {"random", "most_idle", "first_fit", "rank_aware"}) {
      const PolicyResult result = simulated(other, options);
      EXPECT_GE(tandem.slo_attainment, result.slo_attainment) << other;
      EXPECT_LT(tandem.ttft_ms.mean, result.ttft_ms.mean) << other;
      EXPECT_LT(tandem.ttft_ms.p99, result.ttft_ms.p99) << other;
    }
  }
}

TEST(Simulation, LetsTandemSharePromptStepsWhereNoAdapterIsCold) {
  SimulationOptions options = small_cluster();
  options.cold_start = SimColdStart::cached;
  options.mixed_steps = false;
  const PolicyResult tandem = simulated("tandem", options);
  for (const std::string other : {"round_robin", "most_idle", "affinity"}) {
    const PolicyResult result = simulated(other, options);
    EXPECT_LT(tandem.tpot_ms.mean, 0.95 * result.tpot_ms.mean) << other;
    EXPECT_LT(tandem.latency_ms.mean, 0.95 * result.latency_ms.mean) << other;
    EXPECT_GE(tandem.slo_attainment, result.slo_attainment - 0.005) << other;
  }
}

TEST(Simulation, ServesSoonerWhereThePolicyKnowsWhatEnginesWereSent) {
  SimulationOptions options = small_cluster();
  options.workload.adapters = 20;
  options.workload.prefixes = 40;
  options.workload.prefix_tokens = 400;
  options.workload.requests_per_s = 20;
  const PolicyResult told = simulated("tandem", options);
  options.tell_prefixes = false;
  const PolicyResult untold = simulated("tandem", options);
  EXPECT_EQ(told.requests, untold.requests);
  EXPECT_GT(told.cached_share, 2 * untold.cached_share);
  EXPECT_LT(told.ttft_ms.mean, 0.8 * untold.ttft_ms.mean);
  EXPECT_GE(told.slo_attainment, untold.slo_attainment);
}

TEST(Simulation, RefusesOptionsThatCannotBe) {
  const ManualClock clock;
  SimulationOptions options = small_cluster();
  EXPECT_FALSE(simulate_policy("best", options, nullptr, clock, {}).ok());
  options.engines = 0;
  EXPECT_FALSE(simulate_policy("random", options, nullptr, clock, {}).ok());
  options = small_cluster();
  options.warmup_s = 25;
  EXPECT_FALSE(simulate_policy("random", options, nullptr, clock, {}).ok());
  options = small_cluster();
  options.machine.adapter_bytes = 1000;  // no adapter fits, so requests would wait for ever
  EXPECT_FALSE(simulate_policy("random", options, nullptr, clock, {}).ok());
}

TEST(Summary, IsMeanMedianAndTheNinetyNinthPercentile) {
  std::vector<float> samples;
  for (int i = 1000; i >= 1; --i) samples.push_back(static_cast<float>(i));
  const Distribution result = summarise(samples, 4);
  EXPECT_DOUBLE_EQ(result.mean, 500.5);
  EXPECT_DOUBLE_EQ(result.p50, 500);
  EXPECT_DOUBLE_EQ(result.p99, 990);
  using Points = std::vector<std::pair<double, double>>;
  EXPECT_EQ(result.cdf, (Points{{250, 0.25}, {500, 0.5}, {750, 0.75}, {1000, 1}}));
  std::vector<float> none;
  EXPECT_EQ(summarise(none).mean, 0);
}

}  // namespace
}  // namespace tandem
