// A step whose layers are launched from recordings gives the same logits, and leaves the same keys
// and values behind, as the same step run at once, whatever its prompts and their adapters.
#include "engine/model/layer_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/engine/model/graphs_fixture.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

class LayerGraphsTest : public GraphsFixture {
 protected:
  // So many tokens of a sequence, behind those that it has.
  struct Chunk {
    std::vector<TokenId> tokens;
    std::int64_t start = 0;
    std::size_t table = 0;
    int adapter = -1;  // the base
  };

  void fill(const std::vector<Chunk>& chunks) {
    batch_->clear();
    for (const Chunk& chunk : chunks) {
      const AdapterSlot slot = chunk.adapter < 0 ? AdapterSlot{} : slot_of(chunk.adapter);
      const std::int32_t first = batch_->add_sequence(
          chunk.tokens, chunk.start, tables_[chunk.table].pages(), kPageTokens, slot);
      batch_->add_sample(first + static_cast<std::int32_t>(chunk.tokens.size()) - 1, {}, {}, {});
    }
  }

  // The logits of a step of `chunks`, by recordings of layers.
  std::vector<float> by_layers(const std::vector<Chunk>& chunks, bool recorded = true) {
    fill(chunks);
    EXPECT_TRUE(layers_.pad(*batch_));
    const StepInput input = batch_->upload(*stream_);
    if (!recorded) {
      model_->forward(*stream_, input, *cache_, tier_->table());
      return logits(static_cast<std::int32_t>(chunks.size()));
    }
    model_->forward(*stream_, input, *cache_, tier_->table(), nullptr, &layers_);
    const Status status = layers_.take_status();
    EXPECT_TRUE(status.ok()) << status.message();
    return logits(static_cast<std::int32_t>(chunks.size()));
  }

  // Of all pages that sequences have.
  std::vector<float> keys_and_values() {
    const KvLayer first = cache_->layer(0);
    const auto page_floats = static_cast<std::size_t>(first.page_stride);
    std::vector<PageId> pages;
    for (const BlockTable& table : tables_) {
      pages.insert(pages.end(), table.pages().begin(), table.pages().end());
    }
    std::vector<float> all(pages.size() * page_floats);
    for (std::size_t i = 0; i < pages.size(); ++i) {
      stream_->copy_to_host(
          all.data() + i * page_floats,
          static_cast<const float*>(first.base) + pages[i].value() * first.page_stride,
          page_floats * sizeof(float));
    }
    EXPECT_TRUE(stream_->synchronize().ok());
    return all;
  }

  LayerGraphs layers_{kMaxRows, 64, kMaxLen, LayerGraphs::When::when_met};
};

TEST_F(LayerGraphsTest, ComputeWhatTheStepItselfDoes) {
  const std::uint64_t seed = test_seed();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  for (std::int32_t i = 0; i < 6; ++i) {
    tables_.emplace_back(pool_);
    ASSERT_TRUE(tables_.back().reserve(kMaxLen));
  }
  std::vector<std::int64_t> lengths(tables_.size(), 0);
  for (int step = 0; step < 60; ++step) {
    // Mostly one prompt, or a chunk of one; now and then several, and decodes beside them.
    const std::size_t count = step % 3 == 0 ? 1 + random() % tables_.size() : 1;
    std::vector<Chunk> chunks;
    std::int64_t room = kMaxRows;
    for (std::size_t i = 0; i < count; ++i) {
      Chunk chunk;
      chunk.table = (static_cast<std::size_t>(step) + i) % tables_.size();
      std::int64_t& length = lengths[chunk.table];
      const std::int64_t left = kMaxLen - 2 - length;
      if (left <= 0) length = 0;  // another sequence takes its place
      const std::int64_t most =
          std::min(room - static_cast<std::int64_t>(count - i) + 1, kMaxLen - 2 - length);
      chunk.start = length;
      chunk.adapter = static_cast<int>(random() % 6) - 1;
      const auto tokens =
          random() % 4 == 0
              ? 1
              : 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
      for (std::int64_t t = 0; t < tokens; ++t) {
        chunk.tokens.push_back(static_cast<TokenId>(random() % 211));
      }
      room -= tokens;
      length += tokens;
      chunks.push_back(std::move(chunk));
    }
    SCOPED_TRACE(::testing::Message() << "step " << step << ", seed " << seed);
    // As it would be without. Sums may be taken in another order for other shapes.
    fill(chunks);
    model_->forward(*stream_, batch_->upload(*stream_), *cache_, tier_->table());
    const std::vector<float> eager = logits(static_cast<std::int32_t>(chunks.size()));
    const std::vector<float> eager_cache = keys_and_values();
    // Last comes the one whose keys and values are left.
    const std::vector<float> padded = by_layers(chunks, false);
    const std::vector<float> recorded = by_layers(chunks);
    EXPECT_EQ(recorded, padded) << "the very same operations";
    const std::vector<float> cache = keys_and_values();
    for (std::size_t i = 0; i < cache.size(); ++i) {
      ASSERT_NEAR(cache[i], eager_cache[i], 1e-4F * (1 + std::abs(cache[i])))
          << "key or value " << i;
    }
    for (std::size_t i = 0; i < eager.size(); ++i) {
      ASSERT_NEAR(recorded[i], eager[i], 1e-4F * (1 + std::abs(eager[i])));
    }
  }
  EXPECT_GT(layers_.num_recorded(), 0U);
}

TEST_F(LayerGraphsTest, LeaveStepsAloneThatAreTooLargeOrHaveTooManySequences) {
  EXPECT_TRUE(layers_.bounds(kMaxRows, 1, 64, 0).has_value());
  EXPECT_FALSE(layers_.bounds(kMaxRows + 1, 1, 64, 0).has_value());
  EXPECT_FALSE(layers_.bounds(8, 1, 64, 9).has_value()) << "cold groups";
  const LayerGraphs large(256, 64, kMaxLen, LayerGraphs::When::when_met);
  EXPECT_TRUE(large.bounds(200, 4, 64, 0).has_value());
  EXPECT_FALSE(large.bounds(200, 5, 64, 0).has_value());
  EXPECT_EQ(large.bounds(50, 5, 64, 0)->sequences, 64);
  EXPECT_EQ(large.bounds(50, 3, 64, 0)->sequences, 4);
  EXPECT_EQ(large.bounds(50, 3, 8, 1)->sequences, 64) << "with a cold group, one or many";
  EXPECT_EQ(large.bounds(50, 3, 8, 1)->max_rank, 64) << "and any rank";
  EXPECT_FALSE(LayerGraphs(1024, 64, kMaxLen, LayerGraphs::When::when_met).bounds(300, 1, 0, 0));
  LayerHandoff usual, rare;
  usual.sites[0].cpu_groups = 1;
  rare.sites[3].cpu_groups = 1;
  const LayerGraphs made(256, 64, kMaxLen, LayerGraphs::When::beforehand);
  EXPECT_TRUE(made.serves(std::vector<LayerHandoff>{{}, usual}));
  EXPECT_FALSE(made.serves(std::vector<LayerHandoff>{usual, rare}));
  EXPECT_TRUE(large.serves(std::vector<LayerHandoff>{usual, rare})) << "when they are met";
  const LayerGraphs tiny(2, 64, kMaxLen, LayerGraphs::When::when_met);
  EXPECT_EQ(tiny.bounds(2, 2, 0, 0)->sequences, 2) << "no more sequences than rows";
  const LayerGraphs none(0, 64, kMaxLen, LayerGraphs::When::when_met);
  EXPECT_FALSE(none.bounds(1, 1, 0, 0).has_value());
  EXPECT_TRUE(none.all_bounds(false).empty() && none.all_bounds(true).empty());
}

// Whatever a step has, its bounds are among those that are recorded beforehand.
TEST_F(LayerGraphsTest, NameAllBoundsThatAStepMayHave) {
  const LayerGraphs layers(200, 100, kMaxLen, LayerGraphs::When::beforehand);
  for (const bool cold : {false, true}) {
    const std::vector<StepBounds> all = layers.all_bounds(cold);
    for (std::int32_t rows = 1; rows <= 200; ++rows) {
      for (const std::int32_t sequences : {1, 2, 3, 4, 5, rows}) {
        for (const std::int32_t rank : {0, 1, 16, 17, 64, 65, 100}) {
          if (sequences > rows || (cold && rank == 0)) continue;
          for (const std::int32_t groups : {1, 2, 8}) {
            if (groups > sequences) continue;
            const auto bounds = layers.bounds(rows, sequences, rank, cold ? groups : 0);
            if (!bounds) continue;
            EXPECT_NE(std::ranges::find(all, *bounds), all.end())
                << rows << " rows, " << sequences << " sequences, rank " << rank;
          }
        }
      }
    }
  }
}

// A layer that no step has had is enqueued where recordings are made beforehand alone.
TEST_F(LayerGraphsTest, RecordALayerWhenItIsMetOrNotAtAll) {
  for (const LayerGraphs::When when :
       {LayerGraphs::When::beforehand, LayerGraphs::When::when_met}) {
    LayerGraphs layers(8, 64, kMaxLen, when);
    const StepInput input = batch_->padded_input(*layers.bounds(8, 1, 0, 0));
    int enqueued = 0;
    for (int turn = 0; turn < 3; ++turn) {
      layers.run(*stream_, LayerKind{}, input, [&] { ++enqueued; });
    }
    EXPECT_EQ(enqueued, when == LayerGraphs::When::when_met ? 1 : 3);
    EXPECT_EQ(layers.num_recorded(), when == LayerGraphs::When::when_met ? 1U : 0U);
    EXPECT_TRUE(layers.take_status().ok());
  }
  EXPECT_TRUE(stream_->synchronize().ok());
}

// What a prompt needs most is there when the engine starts.
TEST_F(LayerGraphsTest, RecordedBeforehandServePromptsWithAnyAdapter) {
  const std::vector<StepBounds> all = layers_.all_bounds(false);
  for (const StepBounds& bounds : all) {
    const StepInput input = batch_->padded_input(bounds);
    ASSERT_TRUE(model_->record_layers(*stream_, input, *cache_, tier_->table(), layers_).ok());
  }
  const std::size_t recorded = layers_.num_recorded();
  EXPECT_EQ(recorded, all.size() * 2);  // of each of two layers
  tables_.emplace_back(pool_);
  ASSERT_TRUE(tables_.back().reserve(kMaxLen));
  for (const int adapter : {-1, 0, 1, 2, 3, 4}) {
    by_layers({{std::vector<TokenId>(static_cast<std::size_t>(7 + adapter), 5), 0, 0, adapter}});
  }
  EXPECT_EQ(layers_.num_recorded(), recorded);
}

}  // namespace
}  // namespace tandem::test
