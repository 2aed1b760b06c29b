#include "engine/memory/block_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tandem {
namespace {

constexpr std::int32_t kPageTokens = 4;

// A pool for one group that sees the whole context, and `windowed` that see `window` keys.
PoolShape shape_of(std::int32_t num_pages, std::int32_t windowed, std::int64_t window,
                   std::int64_t step_rows = 1) {
  return {num_pages, kPageTokens, 1, {1, windowed, window, step_rows}};
}

TEST(BlockTable, HasATableOfTheSameLengthForEachGroup) {
  PagePool pool(shape_of(9, 2, 8));
  BlockTable table(pool);
  ASSERT_TRUE(table.reserve(9));
  EXPECT_EQ(table.num_pages(), 3U);
  EXPECT_EQ(pool.num_free(), 0);
  std::vector<PageId> all;
  for (std::int32_t group = 0; group < table.num_groups(); ++group) {
    ASSERT_EQ(table.pages(group).size(), 3U);
    all.insert(all.end(), table.pages(group).begin(), table.pages(group).end());
  }
  std::ranges::sort(all);
  EXPECT_TRUE(std::ranges::adjacent_find(all) == all.end());
  BlockTable other(pool);
  EXPECT_FALSE(other.reserve(1));
  EXPECT_EQ(other.num_pages(), 0U);
}

TEST(BlockTable, GivesBackPagesOfWindowedGroupsOnly) {
  PagePool pool(shape_of(9, 2, 8));
  BlockTable table(pool);
  ASSERT_TRUE(table.reserve(12));
  const std::vector<PageId> whole(table.pages(0).begin(), table.pages(0).end());
  const PageId last = table.pages(2)[2];
  table.give_back_before(2);
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_EQ(table.num_held(), 5);
  EXPECT_TRUE(std::ranges::equal(table.pages(0), whole));
  for (const std::int32_t group : {1, 2}) {
    EXPECT_EQ(table.pages(group)[0], pool.shape().null_page());
    EXPECT_EQ(table.pages(group)[1], pool.shape().null_page());
  }
  EXPECT_EQ(table.pages(2)[2], last);
  EXPECT_FALSE(table.holds_all(1));
  EXPECT_TRUE(table.holds_all(2));
  table.give_back_before(1);  // they are gone
  EXPECT_EQ(table.num_held(), 5);
  BlockTable moved(std::move(table));
  EXPECT_EQ(moved.num_held(), 5);
  moved.clear();
  EXPECT_EQ(pool.num_free(), 9);
}

TEST(BlockTable, SharesPagesAndLeavesOutThoseThatAreNotHeld) {
  PagePool pool(shape_of(6, 1, 8));
  BlockTable first(pool);
  ASSERT_TRUE(first.reserve(8));
  BlockTable second(pool);
  second.append(std::vector<PageId>{first.pages(0)[0], pool.shape().null_page()});
  second.append(std::vector<PageId>{first.pages(0)[1], first.pages(1)[1]});
  EXPECT_EQ(second.num_held(), 3);
  first.clear();
  EXPECT_EQ(pool.num_free(), 3);
  second.clear();
  EXPECT_EQ(pool.num_free(), 6);
}

TEST(PoolShape, CountsTheWindowTheRowsOfAStepAndAPageForWindowedGroups) {
  const PoolShape shape = shape_of(1000, 2, 64, 16);
  EXPECT_EQ(shape.table_pages(41), 11);
  EXPECT_EQ(shape.pages_for(40), 30) << "as many as the others";
  EXPECT_EQ(shape.pages_for(400), 100 + 2 * (64 + 16 + kPageTokens) / kPageTokens);
  for (const std::int64_t pages : {3, 29, 30, 62, 63, 64, 65, 200}) {
    const std::int64_t longest = shape.longest_with(pages);
    EXPECT_LE(shape.pages_for(longest), pages) << pages;
    EXPECT_GT(shape.pages_for(longest + 1), pages) << pages;
  }
}

}  // namespace
}  // namespace tandem
