// The prefix cache of a model with windowed layers.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/memory/block_table.h"
#include "engine/memory/prefix_cache.h"

namespace tandem {
namespace {

using Tokens = std::vector<TokenId>;

constexpr std::int32_t kPageTokens = 2;
constexpr std::int64_t kWindow = 4;

Tokens counted(TokenId first, std::size_t count) {
  Tokens tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<TokenId>(i);
  return tokens;
}

Tokens joined(Tokens tokens, const Tokens& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

// A sequence as the batcher treats it: before a step of up to `rows` tokens it offers what it has
// computed and gives back what no later row sees; when the step is planned it offers its results.
struct Reader {
  Reader(PagePool& pool, PrefixCache& cache, const Tokens& all, std::size_t rows = kPageTokens)
      : tokens(all), table(pool) {
    cached = cache.enter(position, "", tokens, table);
    for (auto computed = static_cast<std::size_t>(cached);;) {
      offer(cache, computed, computed);
      give_back(pool, computed);
      if (computed == tokens.size()) return;
      const std::size_t settled = computed;
      computed = std::min(computed + rows, tokens.size());
      EXPECT_TRUE(table.reserve(static_cast<std::int64_t>(computed)));
      offer(cache, computed, settled);
    }
  }
  void offer(PrefixCache& cache, std::size_t computed, std::size_t settled) {
    cache.extend(position, std::span(tokens).first(computed), static_cast<std::int64_t>(settled),
                 table);
  }
  void give_back(const PagePool& pool, std::size_t computed) {
    const std::int64_t seen =
        pool.shape().groups.first_seen(static_cast<std::int64_t>(computed)) / kPageTokens;
    const auto index = static_cast<std::size_t>(std::min<std::int64_t>(seen, position.num_pages()));
    position.give_back_before(index);
    table.give_back_before(index);
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

class WindowedPrefixes : public ::testing::Test {
 protected:
  Reader read(const Tokens& tokens) { return {pool_, cache_, tokens}; }
  std::int64_t cached_of(const Tokens& tokens) {
    BlockTable table(pool_);
    PrefixCache::Position position;
    const std::int64_t cached = cache_.enter(position, "", tokens, table);
    table.clear();
    position.take_back();
    return cached;
  }

  PagePool pool_{PoolShape{64, kPageTokens, 1, {1, 1, kWindow, kPageTokens}}};
  PrefixCache cache_{pool_};
};

TEST_F(WindowedPrefixes, HoldOnlyTheLastWindowInWindowedGroups) {
  read(counted(10, 20)).leave();
  const Reader second = read(joined(counted(10, 20), {1, 2}));
  EXPECT_EQ(second.cached, 20);
  EXPECT_EQ(second.table.num_held(), 11 + 2) << "the whole context, and the window";
  EXPECT_NE(second.table.pages(0)[0], pool_.shape().null_page());
  EXPECT_EQ(second.table.pages(1)[0], pool_.shape().null_page());
}

TEST_F(WindowedPrefixes, AreCutToTheLastPlaceWhoseWindowIsThere) {
  pool_.set_costs({.kv_page = 1, .adapter_byte = 0});
  read(counted(10, 20)).leave();
  ASSERT_EQ(pool_.counts().cached, 20);
  EXPECT_EQ(cached_of(counted(10, 15)), 14);
  // The windowed pages that nothing used again go first: those before the end of the sequence.
  ASSERT_TRUE(pool_.make_room(64 - 20 + 8));
  EXPECT_EQ(pool_.counts().cached, 12);
  EXPECT_EQ(cached_of(counted(10, 20)), 20);
  EXPECT_EQ(cached_of(counted(10, 18)), 0) << "the windows of the places before are gone";
}

TEST_F(WindowedPrefixes, AreWholeAgainWhereTheirPagesWereComputedAgain) {
  pool_.set_costs({.kv_page = 1, .adapter_byte = 0});
  read(counted(10, 20)).leave();
  ASSERT_TRUE(pool_.make_room(64 - 20 + 8));
  Reader again(pool_, cache_, counted(10, 13), 7);  // steps of more rows than the window
  EXPECT_EQ(again.cached, 0);
  again.leave();
  EXPECT_EQ(cached_of(counted(10, 13)), 12);
  EXPECT_EQ(cached_of(counted(10, 20)), 20);
  cache_.drop_idle();
  EXPECT_EQ(pool_.num_free(), 64);
}

TEST_F(WindowedPrefixes, KeepThePlaceBehindWhichSequencesWentDifferentWays) {
  pool_.set_costs({.kv_page = 1, .adapter_byte = 0});
  const Tokens system = counted(10, 12);
  Reader first = read(joined(system, counted(100, 12)));
  Reader second = read(joined(system, counted(200, 12)));
  EXPECT_EQ(second.cached, 12);
  first.leave();
  second.leave();
  // 12 + 6 whole pages, and as many windowed ones, of which three windows are of use: those of the
  // place behind the system prompt and of both ends.
  ASSERT_EQ(pool_.counts().cached, 36);
  ASSERT_TRUE(pool_.make_room(64 - 36 + 10));
  EXPECT_EQ(cached_of(joined(system, {7, 7})), 12);
  EXPECT_EQ(cached_of(joined(system, counted(100, 12))), 24);
}

TEST_F(WindowedPrefixes, AreLeftWithoutWindowsWhenIdleNodesAreDropped) {
  Reader first = read(counted(10, 20));
  cache_.drop_idle();
  EXPECT_EQ(cached_of(counted(10, 20)), 0) << "windowed pages may be of the step that failed";
  EXPECT_EQ(cache_.num_pages(), 10U);
  first.leave();
  cache_.drop_idle();
  EXPECT_EQ(pool_.num_free(), 64);
}

TEST_F(WindowedPrefixes, LoseNoPageIfEveryLayerHasAWindow) {
  PagePool pool(PoolShape{16, kPageTokens, 1, {0, 1, kWindow, kPageTokens}});
  PrefixCache cache(pool);
  {
    Reader first(pool, cache, counted(10, 40));
    EXPECT_EQ(first.table.num_held(), 2);
    first.leave();
    Reader second(pool, cache, joined(counted(10, 40), {1, 2}));
    EXPECT_EQ(second.cached, 40);
  }
  ASSERT_TRUE(pool.make_room(16));
  EXPECT_EQ(cache.num_pages(), 0U);
}

}  // namespace
}  // namespace tandem
