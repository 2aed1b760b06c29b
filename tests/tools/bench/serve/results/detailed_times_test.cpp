#include "tools/bench/serve/results/detailed_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using nlohmann::ordered_json;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

// A result in the format of vLLM's benchmark, in which the second request failed.
ordered_json two_requests() {
  return ordered_json::parse(R"({"ttfts": [0.05, 0.0], "itls": [[0.01, 0.03], []],
      "output_lens": [3, 0], "errors": ["", "refused"]})");
}

TEST(DetailedTimes, AreOfTheRequestsThatWereAnsweredInMilliseconds) {
  const auto times = detailed_times(two_requests());
  ASSERT_TRUE(times);
  EXPECT_THAT(times->ttft, ElementsAre(DoubleNear(50, 1e-9)));
  EXPECT_THAT(times->itl, ElementsAre(DoubleNear(10, 1e-9), DoubleNear(30, 1e-9)));
  EXPECT_THAT(times->tpot, ElementsAre(DoubleNear(20, 1e-9)));
  EXPECT_THAT(times->e2el, ElementsAre(DoubleNear(90, 1e-9)));
}

TEST(DetailedTimes, LeaveOutRequestsThatBrokeOff) {
  ordered_json result = two_requests();
  result["ttfts"][1] = 0.07;
  EXPECT_EQ(detailed_times(result)->ttft.size(), 1U);
  result["errors"][1] = "";
  EXPECT_EQ(detailed_times(result)->ttft.size(), 2U);
  EXPECT_EQ(detailed_times(result)->tpot.size(), 1U) << "one token has no time between tokens";
  result["outcomes"] = {"ok", "interrupted"};
  EXPECT_EQ(detailed_times(result)->ttft.size(), 1U);
}

TEST(DetailedTimes, AreNoneWithoutListsThatFit) {
  EXPECT_FALSE(detailed_times(ordered_json::parse(R"({"mean_ttft_ms": 3})")));
  for (const char* name : {"ttfts", "itls", "output_lens"}) {
    ordered_json result = two_requests();
    result[name] = 3;
    EXPECT_FALSE(detailed_times(result)) << name;
    result[name] = {1};
    EXPECT_FALSE(detailed_times(result)) << name;
  }
}

TEST(DetailedTimes, LeaveOutEntriesThatAreNoTimes) {
  const auto times = detailed_times(ordered_json::parse(
      R"({"ttfts": ["x", 0.05, 0.05], "itls": [[0.01], ["y", 0.01], {}],
          "output_lens": [3, "z", 3], "errors": [1, 2, 3]})"));
  ASSERT_TRUE(times);
  EXPECT_EQ(times->ttft.size(), 1U);
  EXPECT_EQ(times->itl.size(), 1U);
  EXPECT_TRUE(times->tpot.empty());
}

}  // namespace
}  // namespace tandem
