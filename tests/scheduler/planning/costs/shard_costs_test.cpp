#include "scheduler/planning/costs/shard_costs.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

constexpr ShardCosts kCosts{
    .adapter_bytes_per_s = 1e12, .gather_s = 5e-6, .gather_bytes_per_s = 100e9, .launch_s = 1e-6};

TEST(ShardCosts, CountWhatIsNotReadAgainstTheMeeting) {
  // 20 MB of A take 20 us: two devices save half of that, four save three quarters; a gather costs
  // 6 us.
  EXPECT_NEAR(saved_by_gather(kCosts, {20'000'000, 0}, 2), 4e-6, 1e-12);
  EXPECT_NEAR(saved_by_gather(kCosts, {20'000'000, 0}, 4), 9e-6, 1e-12);
}

TEST(ShardCosts, CountTheBytesThatTravel) {
  // 200 KB of v: half of it comes from the other device in 1 us.
  EXPECT_NEAR(saved_by_gather(kCosts, {20'000'000, 200'000}, 2), 3e-6, 1e-12);
}

TEST(ShardCosts, SendFewBytesNowhere) {
  EXPECT_LT(saved_by_gather(kCosts, {1'000'000, 1'000}, 2), 0);
  EXPECT_LT(saved_by_gather(kCosts, {}, 8), 0);
}

// Compares 32 adapters of rank 64 for q, k and v of a model of 4096 with one of rank 8.
TEST(ShardCosts, GatherForManyAdaptersOfHighRank) {
  const auto work = [](std::int64_t adapters, std::int64_t rank) {
    return ShrinkWork{adapters * 3 * rank * 4096 * 2, adapters * 3 * rank * 4};
  };
  EXPECT_GT(saved_by_gather({}, work(32, 64), 4), 0);
  EXPECT_LT(saved_by_gather({}, work(1, 8), 4), 0);
  EXPECT_LT(saved_by_gather({}, work(8, 8), 2), 0);
}

// Reads from the cores' memory are slow, so that sharding pays off earlier.
TEST(ShardCosts, HaveFiguresOfTheirOwnForHostDevices) {
  const ShrinkWork work{8 * 3 * 16 * 4096 * 4, 8 * 3 * 16 * 4};
  EXPECT_GT(saved_by_gather(shard_costs_of_host(), work, 2), 0);
  EXPECT_LT(saved_by_gather({}, work, 2), 0);
}

}  // namespace
}  // namespace tandem
