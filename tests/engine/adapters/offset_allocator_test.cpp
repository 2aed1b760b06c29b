#include "engine/adapters/offset_allocator.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tandem {
namespace {

TEST(OffsetAllocator, TakesTheFirstHoleThatIsLargeEnough) {
  OffsetAllocator space(1024);
  EXPECT_EQ(space.take(100), 0U);  // takes 128
  EXPECT_EQ(space.take(64), 128U);
  EXPECT_EQ(space.take(256), 192U);
  space.give_back(0, 100);
  EXPECT_EQ(space.take(129), 448U);  // the hole at 0 has only 128
  EXPECT_EQ(space.take(128), 0U);
}

TEST(OffsetAllocator, GivesNothingWhenNoHoleIsLargeEnoughThoughTheSumIs) {
  OffsetAllocator space(192);
  ASSERT_EQ(space.take(64), 0U);
  ASSERT_EQ(space.take(64), 64U);
  ASSERT_EQ(space.take(64), 128U);
  space.give_back(0, 64);
  space.give_back(128, 64);
  EXPECT_EQ(space.free_bytes(), 128U);
  EXPECT_EQ(space.take(128), std::nullopt);
  space.give_back(64, 64);
  EXPECT_EQ(space.take(192), 0U);
}

TEST(OffsetAllocator, NeverOverlapsAndJoinsAllHolesInTheEnd) {
  for (const unsigned seed : {1U, 2U, 3U, 4U}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    constexpr std::size_t kBytes = 1 << 16;
    OffsetAllocator space(kBytes);
    std::map<std::size_t, std::size_t> taken;  // the model: offset -> bytes asked for
    std::size_t used = 0;
    for (int i = 0; i < 20000; ++i) {
      if (random() % 2 == 0 || taken.empty()) {
        const std::size_t bytes = 1 + random() % 4000;
        const std::size_t rounded = (bytes + 63) / 64 * 64;
        const bool fits = space.largest_hole() >= rounded;
        const auto offset = space.take(bytes);
        ASSERT_EQ(offset.has_value(), fits);
        if (!offset) continue;
        ASSERT_EQ(*offset % 64, 0U);
        ASSERT_LE(*offset + rounded, kBytes);
        const auto after = taken.lower_bound(*offset);
        if (after != taken.end()) {
          ASSERT_LE(*offset + rounded, after->first);
        }
        if (after != taken.begin()) {
          const auto before = std::prev(after);
          ASSERT_LE(before->first + (before->second + 63) / 64 * 64, *offset);
        }
        taken.emplace(*offset, bytes);
        used += rounded;
      } else {
        auto which = taken.begin();
        std::advance(which, random() % taken.size());
        space.give_back(which->first, which->second);
        used -= (which->second + 63) / 64 * 64;
        taken.erase(which);
      }
      ASSERT_EQ(space.free_bytes(), kBytes - used);
    }
    for (const auto& [offset, bytes] : taken) space.give_back(offset, bytes);
    EXPECT_EQ(space.largest_hole(), kBytes);
  }
}

TEST(OffsetAllocatorDeathTest, NoticesARunThatIsGivenBackTwice) {
  OffsetAllocator space(1024);
  ASSERT_EQ(space.take(128), 0U);
  space.give_back(0, 128);
  EXPECT_DEATH(space.give_back(0, 128), "freed twice");
}

}  // namespace
}  // namespace tandem
