#include "engine/memory/page_pool.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "engine/memory/block_table.h"
#include "engine/memory/pool_layout.h"

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

std::vector<std::int32_t> ids_of(const ChunkTable& table) {
  std::vector<std::int32_t> ids;
  for (const ChunkId id : table.ids()) ids.push_back(id.value());
  return ids;
}

TEST(PagePool, GivesAnAdapterWholeAdjacentPagesAndItsTailTheRestOfOne) {
  PagePool pool(8, 16, 4);
  const auto first = pool.take_chunks(10).value();
  EXPECT_EQ(ids_of(first), (std::vector<std::int32_t>{24, 25, 26, 27, 28, 29, 30, 31, 20, 21}));
  const auto second = pool.take_chunks(2).value();
  EXPECT_EQ(ids_of(second), (std::vector<std::int32_t>{22, 23})) << "the page that was begun";
  EXPECT_EQ(pool.counts().adapter, 3);
  EXPECT_EQ(pool.counts().spare_chunks, 0);
  EXPECT_EQ(pool.num_free(), 5);
}

TEST(PagePool, PutsATailIntoTheFullestPageThatHasRoom) {
  PagePool pool(8, 16, 8);
  const auto three_left = pool.take_chunks(5).value();
  const auto four_left = pool.take_chunks(4).value();
  const auto tail = pool.take_chunks(3).value();
  EXPECT_EQ(tail.ids()[0].value() / 8, three_left.ids()[0].value() / 8);
  EXPECT_EQ(pool.counts().adapter, 2);
  EXPECT_EQ(pool.counts().spare_chunks, 4);
}

TEST(PagePool, ScattersAnAdapterOverPagesOfOthersWhenNoPageIsFree) {
  PagePool pool(3, 16, 4);
  std::vector<ChunkTable> threes;
  for (int i = 0; i < 3; ++i) threes.push_back(pool.take_chunks(3).value());
  EXPECT_FALSE(pool.take_chunks(4));
  EXPECT_EQ(pool.counts().chunks, 9);
  const auto scattered = pool.take_chunks(3).value();
  EXPECT_EQ(pool.counts().spare_chunks, 0);
  threes.clear();
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.counts().spare_chunks, 9);
}

TEST(PagePool, CopiesAdjacentChunksInOneRun) {
  PagePool pool(8, 16, 4);
  const auto table = pool.take_chunks(10).value();  // pages 6, 7 and half of 5
  const auto runs = table.runs(100, 10 * 4096, 12);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].from, 100U);
  EXPECT_EQ(runs[0].to, 24U * 4096 + 100);
  EXPECT_EQ(runs[0].bytes, 8U * 4096 - 100);
  EXPECT_EQ(runs[1].from, 8U * 4096);
  EXPECT_EQ(runs[1].to, 20U * 4096);
  EXPECT_EQ(runs[1].bytes, 2U * 4096);
  EXPECT_TRUE(table.runs(5, 5, 12).empty());
}

TEST(PagePool, FreesAPageWhenItsLastReferenceGoes) {
  PagePool pool(2, 4);
  BlockTable first(pool);
  ASSERT_TRUE(first.reserve(4));
  BlockTable second(pool);
  second.append(first.pages());
  ASSERT_TRUE(second.reserve(8));
  EXPECT_EQ(second.pages()[0], first.pages()[0]);
  first.clear();
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.counts().kv, 2);
  second.clear();
  EXPECT_EQ(pool.num_free(), 2);
}

// Gives back one page at a time, in the order in which it got them.
class Hoard : public Reclaimable {
 public:
  explicit Hoard(PagePool& pool) : pool_(pool) { pool.add(*this); }
  ~Hoard() override { pool_.remove(*this); }
  void take() { held_.emplace_back(pool_.clock().worth(1, 0), pool_.take_page()); }
  std::optional<Worth> least() const override {
    if (held_.empty()) return std::nullopt;
    return held_.front().first;
  }
  void reclaim_least() override {
    pool_.drop_reference(held_.front().second);
    held_.erase(held_.begin());
  }
  std::int64_t reclaimable_pages() const override {
    return static_cast<std::int64_t>(held_.size());
  }
  void drop_all() {
    while (!held_.empty()) reclaim_least();
  }

 private:
  PagePool& pool_;
  std::vector<std::pair<Worth, PageId>> held_;
};

TEST(PagePool, TakesFromItsReclaimablesTheLeastRecentlyUsedFirst) {
  PagePool pool(4, 4);
  Hoard a(pool);
  Hoard b(pool);
  a.take();
  b.take();
  b.take();
  a.take();
  EXPECT_EQ(pool.available_pages(), 4);
  BlockTable table(pool);
  ASSERT_TRUE(table.reserve(8));
  EXPECT_EQ(a.reclaimable_pages(), 1);
  EXPECT_EQ(b.reclaimable_pages(), 1);
  ASSERT_TRUE(table.reserve(12));
  EXPECT_EQ(a.reclaimable_pages(), 1);
  EXPECT_EQ(b.reclaimable_pages(), 0);
  BlockTable other(pool);
  EXPECT_FALSE(other.reserve(8));
  a.drop_all();
}

TEST(PoolLayout, CutsPagesOfRealModelsIntoChunksWithoutRest) {
  const auto layout = [](std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim) {
    DecoderShape shape;
    shape.num_layers = layers;
    shape.num_kv_heads = kv_heads;
    shape.head_dim = head_dim;
    return PoolLayout::of(decoder_of(shape), DType::bf16, 16);
  };
  const PoolLayout llama2 = layout(32, 32, 128);
  EXPECT_EQ(llama2.page_bytes, 8U << 20);
  EXPECT_EQ(llama2.chunk_bytes(), 256U << 10);
  EXPECT_EQ(llama2.chunks_per_page, 32);
  const PoolLayout llama3 = layout(32, 8, 128);
  EXPECT_EQ(llama3.page_bytes, 2U << 20);
  EXPECT_EQ(llama3.chunk_bytes(), 64U << 10);
  const PoolLayout qwen = layout(28, 4, 128);
  EXPECT_EQ(qwen.page_bytes, 896U << 10);
  EXPECT_EQ(qwen.chunk_bytes(), 32U << 10);
  const PoolLayout tiny = layout(3, 1, 8);
  EXPECT_EQ(tiny.chunk_bytes(), 4096U) << "kernels ask for no less";
  EXPECT_EQ(tiny.chunks_per_page, 1);
}

TEST(PoolLayout, GivesLayersThatReadKeysOfOthersNoPlaceOfTheirOwn) {
  DecoderShape shape;
  shape.num_layers = 6;
  shape.num_kv_heads = 2;
  shape.head_dim = 16;
  shape.max_position_embeddings = 512;
  ModelSpec spec = decoder_of(shape);
  for (const std::size_t windowed : {0U, 1U, 3U, 4U}) spec.layers[windowed].attention.window = 24;
  for (const auto& [reader, source] : {std::pair(3U, 1U), {4U, 1U}, {5U, 2U}}) {
    spec.layers[reader].attention.keys_of = source;
  }
  const PoolLayout layout = PoolLayout::of(spec, DType::f32, 16);
  EXPECT_EQ(layout.groups.whole, 1);
  EXPECT_EQ(layout.groups.windowed, 2);
  EXPECT_EQ(layout.page_bytes, layout.slab_bytes) << "a group has one layer";
  std::vector<std::int32_t> groups;
  for (const PoolLayout::LayerPlace& place : layout.layers) {
    EXPECT_EQ(place.offset, 0U);
    groups.push_back(place.group);
  }
  EXPECT_EQ(groups, (std::vector<std::int32_t>{1, 2, 0, 2, 2, 0}));
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
