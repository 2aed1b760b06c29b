#include "base/dashboard/latency_history.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tandem {
namespace {

using std::chrono::seconds;

constexpr double kClass = 0.06;  // half a class, plus rounding

TEST(LatencyHistory, IsEmptyUntilARequestHasEnded) {
  const LatencyHistory history;
  const auto slices = history.slices(TimePoint(seconds(1000)));
  ASSERT_EQ(slices.size(), 60U);
  for (const auto& slice : slices) {
    EXPECT_EQ(slice.requests, 0U);
    EXPECT_LT(slice.first_token.median, 0);
  }
}

TEST(LatencyHistory, TellsQuantilesOfTheSliceThatARequestEndedIn) {
  LatencyHistory history;
  const TimePoint now(seconds(1000));
  for (int i = 1; i <= 100; ++i) history.add(now, i * 1e-3, i * 1e-4);
  history.add(now - seconds(5), 2, std::nullopt);
  const auto slices = history.slices(now);
  EXPECT_EQ(slices[59].requests, 100U);
  EXPECT_NEAR(slices[59].first_token.median / 0.050, 1, kClass);
  EXPECT_NEAR(slices[59].first_token.p95 / 0.095, 1, kClass);
  EXPECT_NEAR(slices[59].per_token.median / 0.0050, 1, kClass);
  EXPECT_EQ(slices[58].requests, 1U);
  EXPECT_NEAR(slices[58].first_token.median / 2, 1, kClass);
  EXPECT_LT(slices[58].per_token.median, 0) << "an answer of one token has no time per token";
}

TEST(LatencyHistory, ForgetsWhatIsOlderThanFiveMinutes) {
  LatencyHistory history;
  history.add(TimePoint(seconds(1000)), 1, 1);
  EXPECT_EQ(history.slices(TimePoint(seconds(1299)))[0].requests, 1U);
  EXPECT_EQ(history.slices(TimePoint(seconds(1300)))[0].requests, 0U);
  history.add(TimePoint(seconds(1300)), 1, 1);  // uses the same place in the ring
  const auto slices = history.slices(TimePoint(seconds(1300)));
  EXPECT_EQ(slices[59].requests, 1U);
}

TEST(LatencyHistory, CountsWhatNoClassWasMadeFor) {
  LatencyHistory history;
  const TimePoint now(seconds(1000));
  history.add(now, 0, 0);
  history.add(now, 1e9, 1e9);
  const auto slice = history.slices(now).back();
  EXPECT_EQ(slice.requests, 2U);
  EXPECT_LT(slice.first_token.median, 1e-4);
  EXPECT_GT(slice.first_token.p95, 3600);
}

}  // namespace
}  // namespace tandem
