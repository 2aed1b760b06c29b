#include "scheduler/planning/costs/step_cost_tracker.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace tandem {
namespace {

constexpr StepCosts kProfile{.kernel = LoraKernel::bgmv,
                             .step_s = 30e-3,
                             .rank_s = 4e-6,
                             .context_token_s = 1e-6,
                             .prefill_token_s = 0.2e-3};

struct TrackedLoad {
  DecodeLoad decode;
  PrefillLoad prefill;
};

// Typical steps of an engine: 8 to 31 rows, and a prompt in every third step.
TrackedLoad tracked_load(std::mt19937_64& random) {
  const auto rows = static_cast<std::int64_t>(8 + random() % 24);
  const auto rank = static_cast<std::int32_t>(8U << (random() % 4));
  TrackedLoad load;
  load.decode = {.requests = rows,
                 .rank_sum = rows * rank,
                 .rank_max = rank,
                 .context_tokens = rows * static_cast<std::int64_t>(50 + random() % 300)};
  if (random() % 3 == 0) {
    const auto tokens = static_cast<std::int64_t>(10 + random() % 200);
    load.prefill = {
        .requests = 1, .tokens = tokens, .rank_tokens = tokens * rank, .rank_max = rank};
  }
  return load;
}

// Mean of |predicted / real - 1| over some steps.
double error_of(const StepCosts& costs, const StepCosts& truth, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  double sum = 0;
  for (int i = 0; i < 200; ++i) {
    const TrackedLoad load = tracked_load(random);
    sum += std::abs(costs.step_time_s(load.decode, load.prefill) /
                        truth.step_time_s(load.decode, load.prefill) -
                    1);
  }
  return sum / 200;
}

void feed(StepCostTracker& tracker, const StepCosts& truth, std::mt19937_64& random, int steps,
          double noise) {
  std::normal_distribution<double> factor(1, noise);
  for (int i = 0; i < steps; ++i) {
    const TrackedLoad load = tracked_load(random);
    EXPECT_TRUE(tracker.observe(load.decode, load.prefill,
                                truth.step_time_s(load.decode, load.prefill) * factor(random)));
  }
}

TEST(StepCostTracker, HealsAStaleProfile) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    StepCosts truth = kProfile;
    truth.step_s *= 1.8;  // a different clock speed
    truth.rank_s *= 0.6;  // and better kernels
    StepCostTracker tracker(kProfile);
    EXPECT_GT(error_of(tracker.costs(), truth, 99), 0.2);
    feed(tracker, truth, random, 1000, 0.02);
    EXPECT_LT(error_of(tracker.costs(), truth, 99), 0.02);
  }
}

TEST(StepCostTracker, FollowsAMachineThatChangesLate) {
  std::mt19937_64 random(3);
  StepCostTracker tracker(kProfile);
  feed(tracker, kProfile, random, 5000, 0.02);
  StepCosts truth = kProfile;
  truth.step_s *= 1.5;
  feed(tracker, truth, random, 1000, 0.02);
  EXPECT_LT(error_of(tracker.costs(), truth, 99), 0.03);
}

TEST(StepCostTracker, LearnsWhatPromptsTakeAmongManySteadySteps) {
  for (const double factor : {0.1, 20.0}) {
    SCOPED_TRACE(testing::Message() << "prompts take " << factor << " times what was thought");
    std::mt19937_64 random(4);
    std::normal_distribution<double> noise(1, 0.02);
    StepCosts truth = kProfile;
    truth.prefill_token_s *= factor;
    StepCostTracker tracker(kProfile);
    const DecodeLoad decode{.requests = 2, .rank_sum = 32, .rank_max = 16, .context_tokens = 200};
    double off = 0;
    for (int i = 0; i < 100; ++i) {
      for (int step = 0; step < 35; ++step) {
        EXPECT_TRUE(tracker.observe(decode, {}, truth.decode_time_s(decode) * noise(random)));
      }
      const auto tokens = static_cast<std::int64_t>(8 + random() % 56);
      const PrefillLoad prompt{
          .requests = 1, .tokens = tokens, .rank_tokens = tokens * 16, .rank_max = 16};
      const double takes_s = truth.step_time_s(decode, prompt);
      if (i >= 50) off += std::abs(tracker.costs().step_time_s(decode, prompt) / takes_s - 1) / 50;
      EXPECT_TRUE(tracker.observe(decode, prompt, takes_s * noise(random)));
    }
    EXPECT_LT(off, 0.05);
    EXPECT_NEAR(tracker.costs().decode_time_s(decode), truth.decode_time_s(decode),
                0.02 * truth.decode_time_s(decode));
  }
}

TEST(StepCostTracker, IsNotMovedByAStall) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    StepCostTracker tracker(kProfile);
    feed(tracker, kProfile, random, 500, 0.02);
    const TrackedLoad load = tracked_load(random);
    EXPECT_TRUE(tracker.observe(load.decode, load.prefill, 5.0));  // 100 times a step's time
    EXPECT_LT(error_of(tracker.costs(), kProfile, 99), 0.02);
    // One such step in a hundred has no effect either.
    for (int i = 0; i < 20; ++i) {
      feed(tracker, kProfile, random, 99, 0.02);
      const TrackedLoad again = tracked_load(random);
      EXPECT_TRUE(tracker.observe(again.decode, again.prefill, 2.0));
    }
    EXPECT_LT(error_of(tracker.costs(), kProfile, 99), 0.03);
  }
}

TEST(StepCostTracker, StaysRightThroughHoursOfTheSameBatch) {
  // Repeated observations contain nothing new, so forgetting must not make the filter diverge.
  StepCostTracker tracker(kProfile);
  const DecodeLoad load{.requests = 4, .rank_sum = 32, .rank_max = 8, .context_tokens = 400};
  for (int i = 0; i < 200'000; ++i) {
    const double noise = 1 + 0.02 * ((i * 7919) % 101 - 50) / 50.0;
    EXPECT_TRUE(tracker.observe(load, {}, kProfile.decode_time_s(load) * noise));
  }
  EXPECT_NEAR(tracker.costs().decode_time_s(load), kProfile.decode_time_s(load),
              0.02 * kProfile.decode_time_s(load));
  EXPECT_LT(error_of(tracker.costs(), kProfile, 99), 0.15);
}

TEST(StepCostTracker, IgnoresWhatIsNoMeasurement) {
  StepCostTracker tracker(kProfile);
  const DecodeLoad load{.requests = 1, .rank_sum = 8, .rank_max = 8, .context_tokens = 10};
  const double inf = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, inf, std::numeric_limits<double>::quiet_NaN(), 61.0}) {
    EXPECT_FALSE(tracker.observe(load, {}, bad)) << bad;
  }
  EXPECT_FALSE(tracker.observe({}, {}, 0.03));
  EXPECT_EQ(tracker.observed(), 0);
  EXPECT_EQ(tracker.costs().step_s, kProfile.step_s);
}

TEST(StepCostTracker, SurvivesAnEngineThatReportsNonsense) {
  std::mt19937_64 random(5);
  StepCostTracker tracker(kProfile);
  for (int i = 0; i < 20'000; ++i) {
    const TrackedLoad load = tracked_load(random);
    tracker.observe(load.decode, load.prefill,
                    std::exp(std::uniform_real_distribution<double>(-20, 4)(random)));
    const StepCosts& costs = tracker.costs();
    ASSERT_GT(costs.step_s, 0);
    ASSERT_TRUE(std::isfinite(costs.step_s + costs.rank_s + costs.prefill_token_s));
  }
}

}  // namespace
}  // namespace tandem
