#include "engine/model/spec/spread.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine/loader/shard.h"
#include "tests/support/small_model.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

AttentionSpec attention_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  AttentionSpec attention;
  attention.heads = heads;
  attention.kv_heads = kv_heads;
  attention.head_dim = head_dim;
  return attention;
}

ModelSpec model_of(const AttentionSpec& attention, std::int64_t mlp) {
  ModelSpec spec = test::small_model(1);
  spec.layers.front().attention = attention;
  spec.layers.front().mlp.size = mlp;
  return spec;
}

// The stored element at each place; -1: zero.
std::vector<std::int64_t> places_of(const SpreadRuns& spread, std::int64_t size) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(size), -1);
  for (const SpreadRun& run : spread) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      places.at(static_cast<std::size_t>(run.to + i)) = run.from + i;
    }
  }
  return places;
}

TEST(Spread, IsNotNeededWhereAllDevicesHaveEqualParts) {
  const ModelSpec spec = model_of(attention_of(8, 4, 16), 160);
  for (const std::int32_t devices : {1, 2, 4}) {
    EXPECT_EQ(spread_over(spec, devices).layers, spec.layers) << devices;
  }
}

TEST(Spread, HasEveryQueryHeadOnceBesideItsKvHead) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 300; ++round) {
    const auto pick = [&](std::int64_t most) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)) + 1;
    };
    const std::int64_t kv_heads = pick(9);
    const std::int64_t group = pick(9);
    const auto devices = static_cast<std::int32_t>(pick(8));
    const ModelSpec spec =
        model_of(attention_of(kv_heads * group, kv_heads, 2 * pick(20)), pick(200));
    SCOPED_TRACE(fmt::format("TANDEM_TEST_SEED={}: {} KV heads, groups of {}, {} devices",
                             test_seed(), kv_heads, group, devices));
    const ModelSpec spread = spread_over(spec, devices);
    EXPECT_EQ(check_shards(spread, devices).message(), "");
    const AttentionSpec& attention = spread.attention();
    if (attention.stored_heads == 0) continue;
    const auto heads = places_of(spread_of_heads(attention), attention.heads);
    const auto keys = places_of(spread_of_kv_heads(attention), attention.kv_heads);
    std::vector<int> seen(static_cast<std::size_t>(kv_heads * group), 0);
    const std::int64_t group_of_slot = attention.heads / attention.kv_heads;
    for (std::int64_t h = 0; h < attention.heads; ++h) {
      const std::int64_t head = heads[static_cast<std::size_t>(h)];
      if (head < 0) continue;
      ++seen.at(static_cast<std::size_t>(head));
      EXPECT_EQ(keys[static_cast<std::size_t>(h / group_of_slot)], head / group);
    }
    EXPECT_TRUE(std::ranges::all_of(seen, [](int times) { return times == 1; }));
  }
}

TEST(Spread, SharesOutTheHeadsOfOneKvHead) {
  const AttentionSpec attention = spread_over(model_of(attention_of(7, 1, 8), 64), 2).attention();
  EXPECT_EQ(attention.heads, 8);
  EXPECT_EQ(attention.kv_heads, 2);
  EXPECT_EQ(spread_of_heads(attention), (SpreadRuns{{0, 0, 7}}));
  EXPECT_EQ(spread_of_kv_heads(attention), (SpreadRuns{{0, 0, 1}, {0, 1, 1}}));
  EXPECT_EQ(cut_spread(spread_of_keys(attention), 8, 8), (SpreadRuns{{0, 0, 8}}));
  EXPECT_EQ(cut_spread(spread_of_queries(attention), 32, 32), (SpreadRuns{{32, 0, 24}}));
}

TEST(Spread, CountsTheColumnsOfAllDevicesWithoutZerosAndWithCopies) {
  const auto part_of = [](std::int64_t heads, std::int64_t kv_heads, std::int32_t devices) {
    const ModelSpec spec = model_of(attention_of(heads, kv_heads, 16), 64);
    return shape_of_shard(spread_over(spec, devices), devices).attention();
  };
  EXPECT_EQ(queries_of_all(part_of(8, 4, 2), 2), 8 * 16);
  EXPECT_EQ(keys_of_all(part_of(8, 4, 2), 2), 4 * 16);
  EXPECT_EQ(queries_of_all(part_of(6, 3, 2), 2), 6 * 16) << "a KV head and its heads are zeros";
  EXPECT_EQ(keys_of_all(part_of(6, 3, 2), 2), 3 * 16);
  EXPECT_EQ(queries_of_all(part_of(6, 2, 4), 4), 6 * 16) << "two heads are zeros";
  EXPECT_EQ(keys_of_all(part_of(6, 2, 4), 4), 2 * 2 * 16) << "each KV head has a copy";
}

TEST(Spread, FillsColumnsUpToWholeVectors) {
  const MlpSpec mlp = spread_over(model_of(attention_of(4, 2, 16), 136), 2).mlp();
  EXPECT_EQ(mlp.size, 144);
  EXPECT_EQ(mlp.stored(), 136);
  EXPECT_EQ(cut_spread(spread_of_mlp(mlp), 72, 72), (SpreadRuns{{72, 0, 64}}));
}

}  // namespace
}  // namespace tandem
