#include "scheduler/planning/costs/step_costs.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace tandem {
namespace {

constexpr StepCosts kTruth{.kernel = LoraKernel::mbgmv,
                           .step_s = 30e-3,
                           .request_s = 50e-6,
                           .rank_s = 3e-6,
                           .context_token_s = 1e-6,
                           .prefill_token_s = 0.2e-3,
                           .prefill_rank_token_s = 0.3e-6};

StepSample random_step(std::mt19937_64& random, const StepCosts& truth, double noise) {
  StepSample sample;
  const auto below = [&](std::uint64_t limit) {
    return static_cast<std::int64_t>(random() % limit);
  };
  for (std::int64_t rows = 1 + below(32); rows > 0; --rows) {
    const auto rank = static_cast<std::int32_t>(8 << below(4));
    sample.decode.add(
        {.requests = 1, .rank_sum = rank, .rank_max = rank, .context_tokens = 20 + below(500)});
  }
  for (std::int64_t prompts = below(3); prompts > 0; --prompts) {
    const auto rank = static_cast<std::int32_t>(8 << below(4));
    const std::int64_t tokens = 5 + below(200);
    sample.prefill.add(
        {.requests = 1, .tokens = tokens, .rank_tokens = rank * tokens, .rank_max = rank});
  }
  sample.step_s = truth.step_time_s(sample.decode, sample.prefill) *
                  std::normal_distribution<double>(1, noise)(random);
  return sample;
}

TEST(StepCosts, OfPaddedProductsGoByTheLargestRankAndOfOthersByTheSum) {
  DecodeLoad load;
  load.add({.requests = 3, .rank_sum = 24, .rank_max = 8, .context_tokens = 0});
  load.add({.requests = 1, .rank_sum = 64, .rank_max = 64, .context_tokens = 0});
  StepCosts costs{.step_s = 1, .rank_s = 0.5};
  EXPECT_DOUBLE_EQ(costs.decode_time_s(load), 1 + 0.5 * 4 * 64);
  costs.kernel = LoraKernel::mbgmv;
  EXPECT_DOUBLE_EQ(costs.decode_time_s(load), 1 + 0.5 * (24 + 64));
  EXPECT_EQ(costs.decode_time_s({}), 0);
  EXPECT_EQ(costs.prefill_time_s({}), 0);
  EXPECT_EQ(costs.step_time_s({}, {}), 0);
}

TEST(StepCosts, AMixedStepReadsTheModelOnce) {
  const DecodeLoad decode{.requests = 4, .rank_sum = 32, .rank_max = 8, .context_tokens = 400};
  const PrefillLoad prefill{.requests = 1, .tokens = 100, .rank_tokens = 800, .rank_max = 8};
  EXPECT_NEAR(kTruth.step_time_s(decode, prefill),
              kTruth.decode_time_s(decode) + kTruth.prefill_time_s(prefill) - kTruth.step_s, 1e-12);
}

TEST(StepCosts, AreFoundInTimedSteps) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<StepSample> samples;
    for (int i = 0; i < 400; ++i) samples.push_back(random_step(random, kTruth, 0.02));
    const auto fit = fit_step_costs(LoraKernel::mbgmv, samples);
    ASSERT_TRUE(fit.ok()) << fit.status().message();
    EXPECT_NEAR(fit->costs.step_s, kTruth.step_s, 0.05 * kTruth.step_s);
    EXPECT_NEAR(fit->costs.rank_s, kTruth.rank_s, 0.3 * kTruth.rank_s);
    EXPECT_NEAR(fit->costs.prefill_token_s, kTruth.prefill_token_s, 0.1 * kTruth.prefill_token_s);
    EXPECT_GT(fit->r2, 0.96);
    EXPECT_LE(fit->r2, 1);
  }
}

TEST(StepCosts, AreNotFittedToWhatIsNoMeasurement) {
  std::mt19937_64 random(1);
  std::vector<StepSample> samples;
  EXPECT_FALSE(fit_step_costs(LoraKernel::bgmv, samples).ok());
  for (int i = 0; i < 20; ++i) samples.push_back(random_step(random, kTruth, 0));
  EXPECT_TRUE(fit_step_costs(LoraKernel::bgmv, samples).ok());
  samples[3].step_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(fit_step_costs(LoraKernel::bgmv, samples).ok());
  samples[3] = {};
  samples[3].step_s = 1;
  EXPECT_FALSE(fit_step_costs(LoraKernel::bgmv, samples).ok());
}

}  // namespace
}  // namespace tandem
