#include "engine/memory/prefix_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/memory/block_table.h"

namespace tandem {
namespace {

using Tokens = std::vector<TokenId>;

constexpr std::int32_t kPageTokens = 2;

// A sequence as the scheduler treats it: it enters, computes all of its tokens, and offers them.
struct Reader {
  Reader(PagePool& pool, PrefixCache& cache, const std::string& digest, Tokens all)
      : tokens(std::move(all)), table(pool) {
    cached = cache.enter(position, digest, tokens, table);
    EXPECT_TRUE(table.reserve(static_cast<std::int64_t>(tokens.size())));
  }
  void offer(PrefixCache& cache, std::int64_t settled = 0) {
    cache.extend(position, tokens, settled, table);
  }
  void leave() {
    table.clear();
    position.clear();
  }

  Tokens tokens;
  BlockTable table;
  PrefixCache::Position position;
  std::int64_t cached = 0;
};

class PrefixCacheTest : public ::testing::Test {
 protected:
  Reader computed(const std::string& digest, Tokens tokens) {
    Reader reader(pool_, cache_, digest, std::move(tokens));
    reader.offer(cache_);
    return reader;
  }
  std::int64_t cached_of(const std::string& digest, Tokens tokens) {
    Reader reader(pool_, cache_, digest, std::move(tokens));
    return reader.cached;
  }

  PagePool pool_{8, kPageTokens};
  PrefixCache cache_{pool_};
};

TEST_F(PrefixCacheTest, FindsTheWholePagesThatTwoPromptsShare) {
  const Reader first = computed("", {1, 2, 3, 4, 5});
  const Reader second(pool_, cache_, "", {1, 2, 3, 4, 6, 7});
  EXPECT_EQ(second.cached, 4);
  EXPECT_EQ(second.table.pages()[0], first.table.pages()[0]);
  EXPECT_EQ(second.table.pages()[1], first.table.pages()[1]);
  EXPECT_NE(second.table.pages()[2], first.table.pages()[2]);
  EXPECT_EQ(cached_of("", {1, 2, 3}), 2) << "half a page is none";
  EXPECT_EQ(cached_of("", {9, 2, 3, 4}), 0);
  EXPECT_EQ(cached_of("", {3, 4}), 0) << "the same tokens at another place";
}

TEST_F(PrefixCacheTest, KeepsAdaptersApartByTheirContent) {
  computed("one", {1, 2, 3, 4}).leave();
  EXPECT_EQ(cached_of("one", {1, 2, 3, 4}), 4);
  EXPECT_EQ(cached_of("two", {1, 2, 3, 4}), 0);
  EXPECT_EQ(cached_of("", {1, 2, 3, 4}), 0);
}

TEST_F(PrefixCacheTest, SharesThePagesBeforeABranchWithTheTreeAndKeepsThoseBehindItApart) {
  const Tokens tokens = {1, 2, 3, 4, 5, 6};
  computed("", tokens).leave();
  {
    BlockTable table(pool_);
    PrefixCache::Position position;
    ASSERT_EQ(cache_.enter(position, "", tokens, table, {"one", 1}), 2);
    ASSERT_TRUE(table.reserve(6));
    cache_.extend(position, tokens, 2, table);
  }
  EXPECT_EQ(cache_.num_pages(), 5U) << "two pages of its own, one of the base's";
  const auto found = [&](const char* digest, PrefixBranch branch) {
    BlockTable table(pool_);
    PrefixCache::Position position;
    return cache_.enter(position, digest, tokens, table, std::move(branch));
  };
  EXPECT_EQ(found("", {"one", 1}), 6);
  EXPECT_EQ(found("", {"two", 1}), 2);
  EXPECT_EQ(found("", {"one", 2}), 4) << "it branches off later";
  EXPECT_EQ(found("", {}), 6);
  EXPECT_EQ(found("one", {}), 0);
}

TEST_F(PrefixCacheTest, OutlivesWhoComputedIt) {
  computed("", {1, 2, 3, 4}).leave();
  EXPECT_EQ(pool_.counts().kv, 0);
  EXPECT_EQ(pool_.counts().cached, 2);
  EXPECT_EQ(cached_of("", {1, 2, 3, 4}), 4);
}

TEST_F(PrefixCacheTest, BelievesNoHash) {
  PagePool pool(8, kPageTokens);
  PrefixCache colliding(pool, 1);
  std::vector<Reader> readers;
  for (const TokenId token : {10, 20, 30, 40}) {
    readers.emplace_back(pool, colliding, "", Tokens{token, token, 5, token});
    EXPECT_EQ(readers.back().cached, 0);
    readers.back().offer(colliding);
  }
  const Reader again(pool, colliding, "", {30, 30, 5, 30});
  EXPECT_EQ(again.cached, 4);
  EXPECT_EQ(again.table.pages()[1], readers[2].table.pages()[1]);
}

TEST_F(PrefixCacheTest, GivesBackTheLeastRecentlyUsedAndChildrenBeforeParents) {
  computed("", {1, 1, 2, 2, 3, 3}).leave();
  computed("", {5, 5}).leave();
  EXPECT_EQ(cached_of("", {1, 1, 2, 2, 3, 3}), 6);  // used again, so {5, 5} is the oldest
  ASSERT_TRUE(pool_.make_room(5));
  EXPECT_EQ(cached_of("", {5, 5}), 0);
  EXPECT_EQ(cached_of("", {1, 1, 2, 2, 3, 3}), 6);
  ASSERT_TRUE(pool_.make_room(7));
  EXPECT_EQ(cache_.num_pages(), 1U);
  EXPECT_EQ(cached_of("", {1, 1, 2, 2, 3, 3}), 2);
}

TEST_F(PrefixCacheTest, CountsNoUseThatCameToNothing) {
  pool_.set_costs({.kv_page = 1, .adapter_byte = 0});
  computed("", {1, 1}).leave();
  EXPECT_EQ(cached_of("", {1, 1}), 2);  // twice in total
  computed("", {5, 5}).leave();
  for (int attempt = 0; attempt < 5; ++attempt) {
    Reader reader(pool_, cache_, "", {5, 5});
    EXPECT_EQ(reader.cached, 2);
    reader.table.clear();
    reader.position.take_back();
  }
  ASSERT_TRUE(pool_.make_room(7));
  EXPECT_EQ(cached_of("", {5, 5}), 0);
  EXPECT_EQ(cached_of("", {1, 1}), 2);
}

TEST_F(PrefixCacheTest, KeepsWhatSomebodyUses) {
  Reader reader = computed("", {1, 1, 2, 2});
  EXPECT_FALSE(pool_.make_room(7));
  EXPECT_EQ(cached_of("", {1, 1, 2, 2}), 4);
  reader.leave();
  EXPECT_TRUE(pool_.make_room(8));
}

TEST_F(PrefixCacheTest, ReplacesAPageThatAnotherSequenceOfferedFirst) {
  Reader slow(pool_, cache_, "", {1, 1, 2, 2});
  const Reader fast = computed("", {1, 1, 2, 2});
  const PageId own = slow.table.pages()[0];
  slow.offer(cache_, 0);
  EXPECT_EQ(slow.table.pages()[0], own) << "it is written by the step that is being planned";
  EXPECT_EQ(slow.position.num_pages(), 0);
  slow.offer(cache_, 4);
  EXPECT_EQ(slow.table.pages()[0], fast.table.pages()[0]);
  EXPECT_EQ(slow.table.pages()[1], fast.table.pages()[1]);
  EXPECT_EQ(pool_.num_free(), 6);
}

TEST_F(PrefixCacheTest, GoesOnFromWhereAConversationEnded) {
  Reader turn = computed("", {1, 2, 3});
  turn.tokens.push_back(4);
  turn.offer(cache_, 3);
  turn.leave();
  EXPECT_EQ(cached_of("", {1, 2, 3, 4, 8, 9}), 4);
}

}  // namespace
}  // namespace tandem
