#include "engine/adapters/host_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "shm/region.h"
#include "tests/support/test_device.h"

namespace tandem::test {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kRun = 1024;

class HostTierTest : public ::testing::Test {
 protected:
  HostTierTest()
      : device_(make_test_device()), tier_(HostTier::create(*device_, 4 * kRun).value()) {}

  // Takes a run, fills it with `value` and keeps it.
  HostTier::Id keep(int value, bool droppable = true) {
    AdapterBytes bytes = tier_->take(kRun).value();
    std::memset(bytes.get(), value, kRun);
    std::function<void()> dropped;
    if (droppable) dropped = [this, value] { dropped_.push_back(value); };
    return tier_->keep(std::move(bytes), std::move(dropped));
  }

  std::unique_ptr<Device> device_;
  std::shared_ptr<HostTier> tier_;
  std::vector<int> dropped_;
};

TEST_F(HostTierTest, DropsTheLeastRecentlyUsedWhenItIsFull) {
  std::vector<HostTier::Id> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(keep(i));
  ASSERT_NE(tier_->find(ids[0]), nullptr);  // used again
  keep(4);
  EXPECT_EQ(dropped_, std::vector<int>{1});
  EXPECT_EQ(tier_->find(ids[1]), nullptr);
  EXPECT_EQ(tier_->find(ids[0]).get()[kRun - 1], std::byte{0});
}

TEST_F(HostTierTest, NeverDropsWhatIsPinnedOrHeld) {
  const HostTier::Id pinned = keep(0, false);
  const AdapterBytes held = tier_->find(keep(1));
  for (int i = 2; i < 10; ++i) keep(i);
  EXPECT_EQ(dropped_, (std::vector<int>{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(tier_->find(pinned).get()[0], std::byte{0});
  EXPECT_EQ(held.get()[0], std::byte{1});
}

TEST_F(HostTierTest, SaysWhetherWaitingHelpsWhenNothingCanBeDropped) {
  for (int i = 0; i < 3; ++i) keep(i, false);
  AdapterBytes held = tier_->find(keep(3));
  bool retry = false;
  const auto refused = tier_->take(kRun, &retry);
  EXPECT_EQ(refused.status().code(), StatusCode::resource_exhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("host_tier_gb"));
  EXPECT_TRUE(retry);
  held.reset();
  EXPECT_TRUE(tier_->take(kRun).ok());
  keep(4, false);
  EXPECT_FALSE(tier_->take(kRun, &retry).ok());
  EXPECT_FALSE(retry);
}

TEST_F(HostTierTest, WaitingHelpsWhileOthersFillWhatTheyHaveTaken) {
  for (int i = 0; i < 3; ++i) keep(i, false);
  AdapterBytes filling = tier_->take(kRun).value();
  bool retry = false;
  EXPECT_FALSE(tier_->take(kRun, &retry).ok());
  EXPECT_TRUE(retry);
  const HostTier::Id id = tier_->keep(std::move(filling), nullptr);
  EXPECT_FALSE(tier_->take(kRun, &retry).ok());
  EXPECT_FALSE(retry);
  const AdapterBytes copied = tier_->find(id);
  tier_->erase(id);
  EXPECT_FALSE(tier_->take(kRun, &retry).ok());
  EXPECT_TRUE(retry);
}

// CI found this: a request that looked for room was refused if a run was released at that moment.
TEST_F(HostTierTest, SaysThatWaitingHelpsWhileWhatIsHeldIsBeingLetGo) {
  std::atomic<bool> ended{false};
  std::jthread others([&] {
    while (!ended.load()) (void)tier_->take(4 * kRun);
  });
  int refused = 0;
  for (int i = 0; i < 20'000 && refused == 0; ++i) {
    bool retry = false;
    if (!tier_->take(4 * kRun, &retry).ok() && !retry) ++refused;
  }
  ended = true;
  EXPECT_EQ(refused, 0);
}

TEST_F(HostTierTest, RefusesWhatIsLargerThanAllOfIt) {
  const auto refused = tier_->take(4 * kRun + 1);
  EXPECT_EQ(refused.status().code(), StatusCode::invalid_argument);
  EXPECT_THAT(refused.status().message(), HasSubstr("host_tier_gb"));
}

TEST_F(HostTierTest, TakesFromTheArenaWithMostRoomLeft) {
  const auto tier = HostTier::create(*device_, 4 * kRun, {-1, -1}).value();
  const AdapterBytes first = tier->take(kRun).value();
  const AdapterBytes second = tier->take(kRun / 2).value();
  const AdapterBytes third = tier->take(kRun).value();
  EXPECT_NE(tier->place_of(first.get()).arena, tier->place_of(second.get()).arena);
  EXPECT_EQ(tier->place_of(second.get()).arena, tier->place_of(third.get()).arena);
  EXPECT_EQ(tier->place_of(third.get() + 5).offset, kRun / 2 + 5);
  EXPECT_EQ(tier->used(), 2 * kRun + kRun / 2);
}

TEST_F(HostTierTest, DropsFromOneArenaWhatWasUsedLongestAgo) {
  tier_ = HostTier::create(*device_, 4 * kRun, {-1, -1}).value();
  std::vector<HostTier::Id> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(keep(i));  // alternates between the two
  ASSERT_NE(tier_->find(ids[0]), nullptr);             // both runs of the other one are older now
  const AdapterBytes large = tier_->take(2 * kRun).value();
  EXPECT_EQ(dropped_, (std::vector<int>{1, 3}));
  EXPECT_NE(tier_->find(ids[0]), nullptr);
  EXPECT_NE(tier_->find(ids[2]), nullptr);
}

TEST_F(HostTierTest, RefusesWhatIsLargerThanANodesShare) {
  const auto tier = HostTier::create(*device_, 4 * kRun, {-1, -1}).value();
  const auto refused = tier->take(2 * kRun + 1);
  EXPECT_EQ(refused.status().code(), StatusCode::invalid_argument);
  EXPECT_THAT(refused.status().message(), HasSubstr("host_tier_gb"));
  EXPECT_THAT(refused.status().message(), HasSubstr("2 NUMA nodes"));
}

TEST_F(HostTierTest, IsThereAlsoWhereANodeCannotBeChosen) {
  constexpr int kNoSuchNode = 1000;
  const auto tier = HostTier::create(*device_, 4 * kRun, {-1, kNoSuchNode});
  ASSERT_TRUE(tier.ok()) << tier.status().message();
  for (int i = 0; i < 2; ++i) std::memset((*tier)->take(2 * kRun).value().get(), 1, 2 * kRun);
  EXPECT_THAT((*tier)->region_name(1), HasSubstr("adapters-node1000"));
}

TEST_F(HostTierTest, GivesRoomBackWhenTheLastOwnerLetsGo) {
  const HostTier::Id id = keep(7);
  AdapterBytes held = tier_->find(id);
  tier_->erase(id);
  EXPECT_EQ(tier_->used(), kRun);
  held.reset();
  EXPECT_EQ(tier_->used(), 0U);
}

TEST_F(HostTierTest, IsMappedByOthers) {
  const HostTier::Id id = keep(42);
  const auto view = ShmRegion::open(tier_->region_name(0), ShmRegion::Access::read_only);
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_EQ(view->data()[100], std::byte{42});
  tier_->erase(id);
}

// A thread that waits for room.
class HostTierRoom : public HostTierTest {
 protected:
  void wait_for_room() {
    waiting_ = std::thread([this, counted = tier_->room().count()] {
      told_ = tier_->room().wait(counted, std::chrono::steady_clock::now() + kLong);
    });
    while (tier_->room().num_waiting() == 0) std::this_thread::yield();
  }
  bool is_told() {
    waiting_.join();
    return told_;
  }

  static constexpr std::chrono::minutes kLong{10};  // longer than the test may take
  std::thread waiting_;
  bool told_ = false;
};

TEST_F(HostTierRoom, IsToldOfWhenACopyEnds) {
  AdapterBytes held = tier_->find(keep(1));
  wait_for_room();
  held.reset();
  EXPECT_TRUE(is_told());
}

TEST_F(HostTierRoom, IsToldOfWhenWhatWasFilledIsKept) {
  AdapterBytes filling = tier_->take(kRun).value();
  wait_for_room();
  tier_->keep(std::move(filling), [] {});
  EXPECT_TRUE(is_told());
}

TEST_F(HostTierRoom, IsToldOfWhenAnAdapterIsErased) {
  const HostTier::Id id = keep(1, false);
  wait_for_room();
  tier_->erase(id);
  EXPECT_TRUE(is_told());
}

TEST_F(HostTierRoom, IsToldOfAtOnceWhenItCameBeforeTheWait) {
  const std::uint64_t counted = tier_->room().count();
  tier_->take(kRun).value().reset();
  EXPECT_TRUE(tier_->room().wait(counted, std::chrono::steady_clock::now() + kLong));
}

TEST_F(HostTierRoom, IsWaitedForUntilTheDeadlineOrTheEnd) {
  const std::uint64_t counted = tier_->room().count();
  EXPECT_FALSE(tier_->room().wait(counted, std::chrono::steady_clock::now()));
  wait_for_room();
  tier_->room().end();
  EXPECT_FALSE(is_told());
}

}  // namespace
}  // namespace tandem::test
