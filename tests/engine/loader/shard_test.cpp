#include "engine/loader/shard.h"

#include <gmock/gmock.h>

#include "tests/support/small_model.h"

namespace tandem {
namespace {

using testing::HasSubstr;

TEST(Shard, NamesWhatDoesNotDivide) {
  ModelSpec config = test::small_model(2);  // 4 heads, 2 KV heads, 160 MLP columns
  EXPECT_TRUE(check_shards(config, 1).ok());
  EXPECT_TRUE(check_shards(config, 2).ok());
  EXPECT_THAT(check_shards(config, 3).message(), HasSubstr("4 attention heads"));
  EXPECT_THAT(check_shards(config, 4).message(), HasSubstr("2 KV heads"));
  const auto check_with = [&](std::int64_t kv_heads, std::int64_t ffn, std::int32_t size) {
    for (LayerSpec& layer : config.layers) {
      layer.attention.kv_heads = kv_heads;
      layer.mlp.size = ffn;
    }
    return check_shards(config, size).message();
  };
  EXPECT_THAT(check_with(4, 162, 4), HasSubstr("162 columns of the MLP"));
  EXPECT_THAT(check_with(4, 168, 2), HasSubstr("84 columns"));
  config.vocab_size = 15;
  EXPECT_THAT(check_with(4, 160, 4), HasSubstr("vocabulary of 15"));
}

TEST(Shard, HasItsOwnHeadsAndTheModelsHiddenSize) {
  const ModelSpec part = shape_of_shard(test::small_model(2), 2);
  EXPECT_EQ(part.attention().heads, 2);
  EXPECT_EQ(part.attention().kv_heads, 1);
  EXPECT_EQ(part.mlp().size, 80);
  EXPECT_EQ(part.hidden_size, 64);
  EXPECT_EQ(part.vocab_size, 4096);
}

TEST(Shard, RangesOfTheVocabularyCoverItOnce) {
  ModelSpec config;
  for (const std::int64_t vocab : {64, 65, 71, 4096, 32001, 128256}) {
    config.vocab_size = vocab;
    for (const std::int32_t size : {1, 2, 3, 8}) {
      std::int64_t next = 0;
      for (std::int32_t rank = 0; rank < size; ++rank) {
        const VocabRange range = vocab_of_shard(config, {rank, size});
        EXPECT_EQ(range.first, next);
        EXPECT_GT(range.count, 0) << "rank " << rank << " of " << size << ", " << vocab;
        next += range.count;
      }
      EXPECT_EQ(next, vocab);
    }
  }
}

}  // namespace
}  // namespace tandem
