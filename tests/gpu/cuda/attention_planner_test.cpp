// The assignment of a step's rows to attention kernels; needs no GPU.
#include "gpu/cuda/attention/attention_planner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/test_seed.h"

namespace tandem::cuda {
namespace {

constexpr std::int32_t kPageTokens = 16;

// The plan of a step, and checks of each row and group of heads that share a KV head.
class PlannedStep {
 public:
  PlannedStep(bool hopper, std::int32_t kv_heads, std::int32_t group, std::int32_t d,
              std::vector<AttentionSequence> sequences, bool captured = false)
      : hopper_(hopper), group_(group), d_(d), sequences_(std::move(sequences)) {
    AttentionPlanner planner(132, {}, hopper);
    bytes_.resize(planner.max_bytes());
    for (const AttentionSequence& sequence : sequences_) rows_ += sequence.num_rows;
    planned =
        planner.plan({kv_heads * group, kv_heads, d, kPageTokens, DType::bf16, sequences_.data(),
                      static_cast<std::int32_t>(sequences_.size()), rows_, captured},
                     bytes_.data());
  }

  // The number of times that each packed row of each sequence is computed over all of its keys.
  std::vector<int> coverage() const {
    covered_.assign(static_cast<std::size_t>(rows_ * group_), 0);
    for (const TileItem& item : items()) {
      if (item.num_items == 0) continue;
      // For a tile that is cut, the first item represents all of them.
      if (item.begin_key == 0) cover(item.first_row, item.packed, item.count);
      EXPECT_EQ(item.settled, item.kv_len - item.num_rows);
    }
    const std::int32_t rows = prefill_tile_rows(DType::bf16, d_);
    const auto requests = array<std::int32_t>(planned.request_of_tile, planned.prefill_tiles);
    const auto tiles = array<std::int32_t>(planned.tile_in_request, planned.prefill_tiles);
    const auto begins = array<std::int32_t>(
        planned.row_begin, planned.prefill_tiles > 0 ? planned.prefill_requests + 1 : 0);
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      const auto request = static_cast<std::size_t>(requests[t]);
      const std::int32_t all = (begins[request + 1] - begins[request]) * group_;
      const std::int32_t first = tiles[t] * rows;
      cover(begins[request], first, std::min(rows, all - first));
    }
    for (const PromptTile& tile : prompt_tiles()) {
      const std::int32_t first = tile.tile * hopper_prefill_rows(DType::bf16, d_, false);
      const std::int32_t count =
          std::min(hopper_prefill_rows(DType::bf16, d_, false), tile.num_rows - first);
      cover(tile.first_row, first * group_, count * group_);
    }
    return covered_;
  }

  std::vector<TileItem> items() const {
    std::int32_t items = 0;
    std::memcpy(&items, bytes_.data(), sizeof items);
    return array<TileItem>(PlannedAttention::kItems, items);
  }
  std::int32_t most_parts() const {  // of a tile
    std::int32_t most = 0;
    for (const TileItem& item : items()) most = std::max(most, item.num_items);
    return most;
  }
  std::vector<PromptTile> prompt_tiles() const {
    return array<PromptTile>(planned.hopper, planned.hopper_tiles);
  }
  bool has_hopper() const { return hopper_ && hopper_prefill_rows(DType::bf16, d_, false) > 0; }

  PlannedAttention planned;

 private:
  template <typename T>
  std::vector<T> array(std::size_t offset, std::int32_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    EXPECT_LE(offset + values.size() * sizeof(T), planned.bytes);
    if (count > 0) std::memcpy(values.data(), bytes_.data() + offset, values.size() * sizeof(T));
    return values;
  }
  void cover(std::int32_t first_row, std::int32_t packed, std::int32_t count) const {
    EXPECT_GT(count, 0);
    for (std::int32_t p = packed; p < packed + count; ++p) {
      ++covered_.at(static_cast<std::size_t>(first_row * group_ + p));
    }
  }

  const bool hopper_;
  const std::int32_t group_;
  const std::int32_t d_;
  const std::vector<AttentionSequence> sequences_;
  std::int32_t rows_ = 0;
  std::vector<std::byte> bytes_;
  mutable std::vector<int> covered_;
};

std::vector<AttentionSequence> step_of(const std::vector<std::pair<int, int>>& rows_and_keys) {
  std::vector<AttentionSequence> sequences;
  std::int32_t rows = 0;
  std::int32_t pages = 0;
  for (const auto& [count, keys] : rows_and_keys) {
    sequences.push_back({rows, count, keys, pages, keys - count});
    rows += count;
    pages += (keys + kPageTokens - 1) / kPageTokens;
  }
  return sequences;
}

TEST(AttentionPlanner, GivesEveryRowToOneKernelOnce) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(fmt::format("TANDEM_TEST_SEED={}", seed));
  std::mt19937_64 random(seed);
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<int, int>> step;
    for (int s = pick(1, 12); s > 0; --s) {
      const int rows = pick(0, 2) == 0 ? 1 : pick(2, pick(0, 1) == 0 ? 60 : 700);
      step.emplace_back(rows, rows + pick(0, 500));
    }
    const int kv_heads = pick(1, 32);
    const int group = pick(1, 8);
    const int d = std::vector{64, 96, 128, 256}[static_cast<std::size_t>(pick(0, 3))];
    for (const bool hopper : {false, true}) {
      const PlannedStep planned(hopper, kv_heads, group, d, step_of(step));
      ASSERT_TRUE(planned.planned.fits);
      ASSERT_TRUE(planned.planned.hopper_tiles == 0 || planned.planned.prefill_tiles == 0);
      for (const int times : planned.coverage()) ASSERT_EQ(times, 1) << "round " << round;
    }
  }
}

// Each item begins where the previous one ends, and a tile's items are in one cluster if they fit.
void expect_cuts(const PlannedStep& step) {
  const std::vector<TileItem> items = step.items();
  const std::int32_t cluster = 1 << step.planned.log_cluster;
  ASSERT_LE(cluster, kMaxTileCluster);
  ASSERT_EQ(step.planned.grid_items % cluster, 0);
  ASSERT_LE(items.size(), static_cast<std::size_t>(step.planned.grid_items));
  std::size_t i = 0;
  while (i < items.size()) {
    const TileItem first = items[i];
    if (first.num_items == 0) {
      ++i;
      continue;
    }
    ASSERT_EQ(first.first_item, static_cast<std::int32_t>(i));
    ASSERT_LE(i + static_cast<std::size_t>(first.num_items), items.size());
    if (first.num_items <= cluster) {
      ASSERT_EQ(first.first_item / cluster, (first.first_item + first.num_items - 1) / cluster);
    }
    std::int32_t key = 0;
    for (std::int32_t part = 0; part < first.num_items; ++part, ++i) {
      ASSERT_EQ(items[i].tile, first.tile);
      ASSERT_EQ(items[i].first_item, first.first_item);
      ASSERT_EQ(items[i].begin_key, key);
      ASSERT_GT(items[i].end_key, key);
      key = items[i].end_key;
    }
    ASSERT_LE(key, first.kv_len);
  }
}

TEST(AttentionPlanner, CutsLongContextsIntoPartsThatAClusterHas) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(fmt::format("TANDEM_TEST_SEED={}", seed));
  std::mt19937_64 random(seed);
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    const int longest = 1 << pick(0, 15);
    std::vector<std::pair<int, int>> step;
    for (int s = pick(1, 12); s > 0; --s) {
      const int rows = pick(0, 3) == 0 ? pick(2, 40) : 1;
      step.emplace_back(rows, rows + pick(0, longest));
    }
    const int kv_heads = pick(1, 32);
    const int group = pick(1, 8);
    for (const bool captured : {false, true}) {
      const PlannedStep planned(true, kv_heads, group, 128, step_of(step), captured);
      ASSERT_TRUE(planned.planned.fits);
      ASSERT_NO_FATAL_FAILURE(expect_cuts(planned));
    }
    EXPECT_EQ(PlannedStep(false, kv_heads, group, 128, step_of(step)).planned.log_cluster, 0);

    // One row whose context is long enough to cut, with heads that leave room for whole clusters.
    const PlannedStep together(true, pick(1, 16), group, 128, step_of({{1, pick(512, 2048)}}),
                               pick(0, 1) == 1);
    ASSERT_NO_FATAL_FAILURE(expect_cuts(together));
    EXPECT_GT(together.most_parts(), 1);
    EXPECT_LE(together.most_parts(), 1 << together.planned.log_cluster);

    // A recorded step keeps its clusters for a context that should be cut into more parts.
    const PlannedStep outgrown(true, pick(1, 8), group, 128, step_of({{1, pick(8192, 32768)}}),
                               true);
    ASSERT_NO_FATAL_FAILURE(expect_cuts(outgrown));
    EXPECT_GT(outgrown.planned.log_cluster, 0);
    EXPECT_GT(outgrown.most_parts(), 1 << outgrown.planned.log_cluster);
  }
}

TEST(AttentionPlanner, ShapesTheLaunchesOfRecordedStepsByRowsAndSequencesAlone) {
  for (const std::int32_t batch : {1, 2, 3, 5, 8, 16, 33}) {
    const auto shape = [&](int keys) {
      std::vector<std::pair<int, int>> step(static_cast<std::size_t>(batch), {1, keys});
      step.back().second = 7;
      const PlannedAttention planned = PlannedStep(true, 8, 4, 128, step_of(step), true).planned;
      return std::pair(planned.grid_items, planned.log_cluster);
    };
    EXPECT_EQ(shape(1), shape(513)) << batch;
    EXPECT_EQ(shape(20000), shape(513)) << batch;
  }
}

TEST(AttentionPlanner, OrdersTilesOfPromptsByTheirKeys) {
  const PlannedStep step(true, 32, 1, 128, step_of({{300, 300}, {1, 900}, {130, 600}, {70, 90}}));
  const std::vector<PromptTile> tiles = step.prompt_tiles();
  if (!step.has_hopper()) {
    EXPECT_TRUE(tiles.empty());  // a build without code for sm_90
    return;
  }
  std::vector<std::int32_t> keys;
  for (const PromptTile& tile : tiles) {
    keys.push_back(tile.kv_len - tile.num_rows + std::min((tile.tile + 1) * 128, tile.num_rows));
  }
  EXPECT_EQ(keys, (std::vector<std::int32_t>{600, 598, 300, 256, 128, 90}));
}

TEST(AttentionPlanner, TakesHoppersKernelWhereItIsAhead) {
  const auto tiles = [](std::int32_t kv_heads, std::int32_t group,
                        const std::vector<std::pair<int, int>>& step) {
    return PlannedStep(true, kv_heads, group, 128, step_of(step)).planned.hopper_tiles;
  };
  if (!PlannedStep(true, 32, 1, 128, {}).has_hopper()) {  // a build without code for sm_90
    EXPECT_EQ(tiles(32, 1, {{96, 96}}), 0);
    return;
  }
  EXPECT_EQ(tiles(32, 1, {{96, 96}}), 1);
  EXPECT_EQ(tiles(8, 4, {{96, 96}}), 1);
  EXPECT_EQ(tiles(32, 1, {{64, 64}}), 0);
  EXPECT_EQ(tiles(32, 1, {{64, 64}, {64, 64}, {64, 64}, {64, 64}}), 4);
  // With grouped heads, the other kernel packs rows that leave a tile half empty here.
  EXPECT_EQ(tiles(8, 4, {{64, 64}, {64, 64}, {64, 64}, {64, 64}}), 0);
  // As in PagedAttention.TakesPromptsOfManySequences: more tiles of a head than multiprocessors.
  EXPECT_GT(32 * tiles(32, 1, {{100, 100}, {101, 107}, {102, 114}, {103, 121}, {104, 128}}), 132);
}

TEST(AttentionPlanner, LeavesRecordedStepsAndFewShortPromptsToTheTiledKernel) {
  EXPECT_EQ(PlannedStep(true, 32, 1, 128, step_of({{300, 300}}), true).planned.hopper_tiles, 0);
  EXPECT_EQ(PlannedStep(true, 32, 1, 128, step_of({{20, 300}, {19, 19}})).planned.hopper_tiles, 0);
  EXPECT_EQ(PlannedStep(true, 8, 1, 128, step_of({{300, 300}})).planned.hopper_tiles, 0);
}

}  // namespace
}  // namespace tandem::cuda
