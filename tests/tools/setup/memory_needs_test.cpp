#include "tools/setup/memory_needs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::optional<MemoryLimit> leaves(double bytes) {
  return MemoryLimit{4'000'000'000, static_cast<std::size_t>(bytes), "/sys/fs/cgroup/x/memory.max"};
}

Status check(const MemoryNeeds& needs, double free_bytes) {
  return check_memory_needs(needs, leaves(free_bytes), "pool_gb");
}

TEST(MemoryNeedsOfAnEngine, AreMetWhereThereIsNoLimitOrEnough) {
  const MemoryNeeds huge{1e15, 1e15, 1e15, 1e15};
  EXPECT_TRUE(check_memory_needs(huge, std::nullopt, "pool_gb"));
  EXPECT_TRUE(check({1e9, 1e8, 5e8, 1e8}, 2e9));
}

TEST(MemoryNeedsOfAnEngine, AreRefusedWithTheLimitsFileAndAllPartsInUnits) {
  const Status status = check({1e9, 1e8, 2e9, 1e8}, 2e9);
  EXPECT_EQ(status.code(), StatusCode::resource_exhausted);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("1.0 GB for weights"), HasSubstr("2.0 GB for the page pool"),
                    HasSubstr("2.0 GB free of 4.0 GB (/sys/fs/cgroup/x/memory.max)")));
}

TEST(MemoryNeedsOfAnEngine, NameTheSettingThatHelps) {
  EXPECT_THAT(check({1e9, 0, 2e9, 1e8}, 2e9).message(),
              AllOf(HasSubstr("lower pool_gb, or"), Not(HasSubstr("host_tier_gb"))));
  EXPECT_THAT(check({1e9, 0, 1e8, 2e9}, 2e9).message(),
              AllOf(HasSubstr("lower host_tier_gb, or"), Not(HasSubstr("pool_gb"))));
  EXPECT_THAT(check({1e9, 0, 2e9, 2e9}, 2e9).message(),
              HasSubstr("lower host_tier_gb and pool_gb"));
  EXPECT_THAT(check({3e9, 0, 1e8, 1e8}, 2e9).message(), HasSubstr("take a smaller model"));
  EXPECT_THAT(check({1e9, 3e9, 1e8, 1e8}, 2e9).message(), HasSubstr("max_num_batched_tokens"));
}

TEST(MemoryNeedsOfAnEngine, LeaveThePoolWhatIsNotTaken) {
  const MemoryNeeds needs{1e9, 1e8, 0, 2e8};
  EXPECT_EQ(room_for_pool(needs, std::nullopt), std::numeric_limits<double>::infinity());
  MemoryNeeds with_pool = needs;
  with_pool.pool = room_for_pool(needs, leaves(2e9));
  EXPECT_GT(with_pool.pool, 5e8);
  EXPECT_TRUE(check_memory_needs(with_pool, leaves(2e9), "pool_gb"));
  with_pool.pool += 1;
  EXPECT_FALSE(check_memory_needs(with_pool, leaves(2e9), "pool_gb"));
  EXPECT_LT(room_for_pool(needs, leaves(1e9)), 0);
}

TEST(MemoryNeedsOfAnEngine, OnAGpuAreThoseOfTheHostTier) {
  const Status status = check({0, 0, 0, 3e9}, 2e9);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("lower host_tier_gb"), Not(HasSubstr("weights")),
                                      Not(HasSubstr("pool"))));
}

}  // namespace
}  // namespace tandem
