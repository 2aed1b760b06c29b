#include "tools/bench/measure/bench_lora_ways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/test_device.h"

namespace tandem {
namespace {

using testing::ElementsAre;

TEST(RowsByPopularity, AreThoseOfPunica) {
  EXPECT_THAT(rows_by_popularity("identical", 9), ElementsAre(9));
  EXPECT_THAT(rows_by_popularity("distinct", 3), ElementsAre(1, 1, 1));
  EXPECT_THAT(rows_by_popularity("uniform", 9), ElementsAre(3, 3, 3));
  EXPECT_THAT(rows_by_popularity("uniform", 1), ElementsAre(1));
  for (std::int32_t rows = 1; rows <= 64; ++rows) {
    for (const char* each : {"distinct", "uniform", "skewed", "identical"}) {
      const auto counts = rows_by_popularity(each, rows);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), rows) << each;
      EXPECT_TRUE(std::is_sorted(counts.rbegin(), counts.rend())) << each << ", " << rows;
      EXPECT_GE(counts.back(), 1) << each << ", " << rows;
    }
  }
}

// time() compares each way's result with that of segments.
TEST(LoraWays, GiveTheSameResultAndGatherMovesMoreBytes) {
  const auto device = test::make_test_device();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto bench =
        LoraWaysBench::create(*device, {.dtype = dtype, .width = 64, .rank = 8, .max_rows = 9});
    ASSERT_TRUE(bench.ok()) << bench.status().message();
    for (const char* popularity : {"distinct", "uniform", "identical"}) {
      const auto counts = rows_by_popularity(popularity, 9);
      for (const LoraWay way : {LoraWay::segments, LoraWay::loop, LoraWay::gather}) {
        const auto seconds = (*bench)->time(way, counts, 2);
        ASSERT_TRUE(seconds.ok()) << to_string(way) << ": " << seconds.status().message();
        EXPECT_GT(*seconds, 0);
      }
      EXPECT_GT((*bench)->bytes(LoraWay::gather, counts),
                (*bench)->bytes(LoraWay::segments, counts));
    }
    const auto merged = (*bench)->merge(2);
    ASSERT_TRUE(merged.ok()) << merged.status().message();
    EXPECT_GT(*merged, 0);
  }
}

}  // namespace
}  // namespace tandem
