// A replayed decode step gives the same logits and leaves the same keys and values as the same step
// run directly, for any batch and adapters.
#include "engine/model/graphs/decode_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "tests/engine/model/graphs_fixture.h"

namespace tandem::test {
namespace {

class DecodeGraphsTest : public GraphsFixture {
 protected:
  std::unique_ptr<DecodeGraphs> graphs_ =
      std::make_unique<DecodeGraphs>(*model_, *cache_, kMaxRows);
};

TEST_F(DecodeGraphsTest, ReplayWhatTheStepItselfComputes) {
  constexpr unsigned kSeed = 20261120;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (std::int32_t i = 0; i < kMaxRows; ++i) {
    tables_.emplace_back(pool_);
    ASSERT_TRUE(tables_.back().reserve(20));
  }
  std::set<std::pair<std::size_t, bool>> kinds;
  for (std::int64_t position = 0; position < 20; ++position) {
    // Positions are filled in order, so that the keys before them exist.
    std::vector<Row> rows;
    for (std::size_t table = 0; table < tables_.size(); ++table) {
      rows.push_back({static_cast<TokenId>(random() % 211), position, table,
                      static_cast<int>(random() % 6) - 1});
    }
    std::shuffle(rows.begin(), rows.end(), random);
    const std::size_t count = position == 0 ? rows.size() : 1 + random() % rows.size();
    if (position % 3 == 1) {
      for (Row& row : rows) row.adapter = -1;
    }
    // The steps cover all rows, so that the next position finds its keys.
    for (std::size_t begin = 0; begin < rows.size(); begin += count) {
      const std::vector<Row> part(
          rows.begin() + static_cast<std::ptrdiff_t>(begin),
          rows.begin() + static_cast<std::ptrdiff_t>(std::min(begin + count, rows.size())));
      const auto num = static_cast<std::int32_t>(part.size());
      fill(part);
      ASSERT_TRUE(graphs_->pad(*batch_));
      const StepInput input = batch_->upload(*stream_);
      kinds.insert({static_cast<std::size_t>(input.num_rows), input.num_segments > 0});
      const Status status = graphs_->launch(*stream_, input, tier_->lane(0).table());
      ASSERT_TRUE(status.ok()) << status.message();
      const std::vector<float> replayed = logits(num);

      // The same padded step without a recording runs exactly the same operations.
      model_->forward(*stream_, input, *cache_, tier_->lane(0).table());
      EXPECT_EQ(logits(num), replayed) << num << " rows at " << position;

      // The unpadded step may sum in a different order, because shapes differ.
      fill(part);
      model_->forward(*stream_, batch_->upload(*stream_), *cache_, tier_->lane(0).table());
      const std::vector<float> eager = logits(num);
      for (std::size_t i = 0; i < eager.size(); ++i) {
        ASSERT_NEAR(replayed[i], eager[i], 1e-4F * (1 + std::abs(eager[i])))
            << num << " rows at " << position;
      }
    }
  }
  EXPECT_GT(kinds.size(), 8U);
  EXPECT_GE(graphs_->num_recorded(), kinds.size());
}

TEST_F(DecodeGraphsTest, LeavePrefillAndTooLargeStepsAlone) {
  for (std::int32_t i = 0; i < 2; ++i) {
    tables_.emplace_back(pool_);
    ASSERT_TRUE(tables_.back().reserve(8));
  }
  DecodeGraphs small(*model_, *cache_, 1);
  fill({{5, 0, 0, -1}});
  EXPECT_TRUE(small.pad(*batch_));
  fill({{5, 0, 0, -1}, {5, 0, 1, 2}});
  EXPECT_FALSE(small.pad(*batch_));
  EXPECT_TRUE(graphs_->pad(*batch_));
  const std::vector<TokenId> prompt = {1, 2, 3};
  batch_->clear();
  batch_->add_sequence(prompt, 0, tables_[0].pages(), kPageTokens, {});
  EXPECT_FALSE(graphs_->pad(*batch_));
  DecodeGraphs none(*model_, *cache_, 0);
  fill({{5, 0, 0, -1}});
  EXPECT_FALSE(none.pad(*batch_));
}

TEST_F(DecodeGraphsTest, RecordedBeforehandServeEveryBatch) {
  ASSERT_TRUE(graphs_->record_usual(*stream_, *batch_, tier_->lane(0).table(), 64).ok());
  const std::size_t recorded = graphs_->num_recorded();
  // There are recordings without adapters, and for ranks up to 16, 32 and 64 at q, k and v, or
  // within layers.
  EXPECT_EQ(recorded, graphs_->buckets().size() * 7);
  tables_.emplace_back(pool_);
  ASSERT_TRUE(tables_.back().reserve(8));
  for (const int adapter : {-1, 0, 1, 2, 3, 4}) {
    fill({{5, 0, 0, adapter}});
    ASSERT_TRUE(graphs_->pad(*batch_));
    const StepInput input = batch_->upload(*stream_);
    EXPECT_EQ(input.adapted.has(Site::down), adapter > 0);
    EXPECT_FALSE(input.adapted.has(Site::head));
    ASSERT_TRUE(graphs_->launch(*stream_, input, tier_->lane(0).table()).ok());
  }
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(graphs_->num_recorded(), recorded);
}

TEST_F(DecodeGraphsTest, AddBiasesWhereAnAdapterHasThem) {
  tables_.emplace_back(pool_);
  ASSERT_TRUE(tables_.back().reserve(8));
  const TokenId token = 5;
  AdapterSlot slot = slot_of(0);
  for (const bool has_bias : {false, true}) {
    slot.has_bias = has_bias;
    batch_->clear();
    batch_->add_sequence({&token, 1}, 0, tables_[0].pages(), kPageTokens, slot);
    ASSERT_TRUE(graphs_->pad(*batch_));
    EXPECT_EQ(batch_->upload(*stream_).has_bias, has_bias);
  }
  EXPECT_TRUE(stream_->synchronize().ok());
}

}  // namespace
}  // namespace tandem::test
