#include "tools/profile/fit/rounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

std::vector<double> one_to(int count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

TEST(Rounds, TheIntervalOfTheMedianLeavesOutWhatChanceAllows) {
  EXPECT_EQ(median_interval({7}).low, 7);
  EXPECT_EQ(median_interval({7}).spread(), 0);
  for (const auto& [count, low] : {std::pair{5, 1}, {6, 1}, {8, 1}, {9, 2}, {12, 3}, {20, 6}}) {
    const MedianInterval interval = median_interval(one_to(count));
    EXPECT_EQ(interval.low, low) << count;
    EXPECT_EQ(interval.high, count + 1 - low) << count;
    EXPECT_EQ(interval.median, (count + 1) / 2.0) << count;
  }
  EXPECT_EQ(median_interval({0, 0, 0}).spread(), 0);
  EXPECT_EQ(median_interval({-1, 0, 1}).spread(), 1);
  EXPECT_DOUBLE_EQ(median_interval({1, 1.1, 0.8}).spread(), 0.2);
}

// Tests several distributions: uniform, with a long tail, and with two distant modes.
TEST(Rounds, TheIntervalHoldsTheMedianInNineteenOfTwentySamples) {
  std::mt19937_64 random(test_seed());
  std::uniform_real_distribution<double> even(0, 1);
  const std::vector<std::function<double(double)>> kinds = {
      [](double u) { return u; }, [](double u) { return 1 / (1.001 - u); },
      [](double u) { return u < 0.6 ? u : 100 + u; }};
  for (const auto& kind : kinds) {
    for (const int count : {6, 9, 15, 40}) {
      constexpr int kSamples = 2000;
      int holds = 0;
      for (int sample = 0; sample < kSamples; ++sample) {
        std::vector<double> values(static_cast<std::size_t>(count));
        for (double& value : values) value = kind(even(random));
        const MedianInterval interval = median_interval(values);
        holds += interval.low <= kind(0.5) && kind(0.5) <= interval.high ? 1 : 0;
      }
      // At most five standard deviations below the stated probability.
      EXPECT_GE(holds, (0.95 - 5 * std::sqrt(0.95 * 0.05 / kSamples)) * kSamples) << count;
    }
  }
}

TEST(Rounds, CasesAreTimedByTurnsAndOneThatIsHeldUpChangesNothing) {
  const ManualClock clock;
  std::vector<std::size_t> order;
  const auto medians = time_by_turns(clock, 3, 3, 1, [&](std::size_t i) -> Result<double> {
    order.push_back(i);
    return order.size() == 5 ? 1000 : static_cast<double>(i + 1);
  });
  ASSERT_TRUE(medians.ok());
  EXPECT_EQ(*medians, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

TEST(Rounds, NoRoundButTheFirstBeginsWhenTheTimeIsOver) {
  ManualClock clock;
  int calls = 0;
  const auto slow = [&](std::size_t) -> Result<double> {
    ++calls;
    clock.advance(std::chrono::seconds(2));
    return 2.0;
  };
  ASSERT_TRUE(time_by_turns(clock, 2, 10, 1, slow).ok());
  EXPECT_EQ(calls, 2);
  ASSERT_TRUE(time_by_turns(clock, 2, 10, 5, slow).ok());
  EXPECT_EQ(calls, 2 + 4);
}

TEST(Rounds, ACaseThatFailsEndsThem) {
  const ManualClock clock;
  const auto failed = time_by_turns(clock, 2, 3, 1, [&](std::size_t i) -> Result<double> {
    if (i == 1) return invalid("no answer");
    return 1.0;
  });
  EXPECT_EQ(failed.status().message(), "no answer");
}

}  // namespace
}  // namespace tandem
