#include "engine/memory/page_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace tandem {
namespace {

TEST(PagePool, GivesEachPageToOneOwner) {
  PagePool pool(4, 16);
  BlockTable a(pool);
  BlockTable b(pool);
  EXPECT_TRUE(a.reserve(17));
  EXPECT_TRUE(b.reserve(32));
  EXPECT_EQ(pool.num_free(), 0);
  std::set<PageId> all(a.pages().begin(), a.pages().end());
  all.insert(b.pages().begin(), b.pages().end());
  EXPECT_EQ(all.size(), 4U);
}

TEST(PagePool, ReservesAllOrNothing) {
  PagePool pool(3, 4);
  BlockTable a(pool);
  BlockTable b(pool);
  ASSERT_TRUE(a.reserve(8));
  EXPECT_FALSE(b.reserve(5));
  EXPECT_TRUE(b.pages().empty());
  EXPECT_TRUE(b.reserve(4));
  EXPECT_FALSE(a.reserve(9));
  EXPECT_EQ(a.pages().size(), 2U);
}

TEST(PagePool, FindsTheSlotOfEveryToken) {
  PagePool pool(3, 4);
  BlockTable first(pool);
  ASSERT_TRUE(first.reserve(1));
  BlockTable table(pool);
  ASSERT_TRUE(table.reserve(6));
  EXPECT_EQ(table.slot(0), table.pages()[0] * 4);
  EXPECT_EQ(table.slot(5), table.pages()[1] * 4 + 1);
}

TEST(PagePool, TakesBackWhatAMovedTableHeld) {
  PagePool pool(2, 4);
  {
    BlockTable a(pool);
    ASSERT_TRUE(a.reserve(8));
    BlockTable b(std::move(a));
    BlockTable c(pool);
    c = std::move(b);
    EXPECT_EQ(c.pages().size(), 2U);
  }
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(PagePool, LosesNothingOverRandomOperations) {
  const unsigned seed = 20261120;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  PagePool pool(37, 5);
  std::vector<BlockTable> tables;
  for (int i = 0; i < 8; ++i) tables.emplace_back(pool);
  for (int step = 0; step < 10000; ++step) {
    BlockTable& table = tables[random() % tables.size()];
    if (random() % 4 == 0) {
      table.clear();
    } else {
      const std::size_t before = table.pages().size();
      if (!table.reserve(random() % 80)) {
        ASSERT_EQ(table.pages().size(), before);
      }
    }
    std::set<PageId> owned;
    std::size_t count = 0;
    for (const BlockTable& each : tables) {
      owned.insert(each.pages().begin(), each.pages().end());
      count += each.pages().size();
    }
    ASSERT_EQ(owned.size(), count);
    ASSERT_EQ(static_cast<std::size_t>(pool.num_free()) + count, 37U);
  }
}

TEST(PagePoolDeathTest, NoticesALeak) {
  EXPECT_DEATH(
      {
        auto* table = new BlockTable(*new PagePool(2, 4));
        PagePool pool(2, 4);
        table = new BlockTable(pool);
        (void)table->reserve(4);
      },
      "1 pages leaked");
}

}  // namespace
}  // namespace tandem
