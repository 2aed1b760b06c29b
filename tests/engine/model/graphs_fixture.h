// A small model with adapters of several ranks, and its steps, for tests of recordings.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ids/token_id.h"
#include "engine/adapters/adapter_store.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/loader/weights.h"
#include "engine/memory/block_table.h"
#include "engine/model/model.h"
#include "tests/support/small_model.h"
#include "tests/support/test_device.h"

namespace tandem::test {

class GraphsFixture : public ::testing::Test {
 protected:
  static constexpr std::int32_t kPageTokens = 4;
  static constexpr std::int32_t kPages = 256 + 512;  // for KV and adapters
  static constexpr std::int32_t kMaxRows = 40;
  static constexpr std::int32_t kMaxLen = 64;

  // `config`: its layers have one group of pages.
  explicit GraphsFixture(const ModelSpec& config = small_model(2))
      : config_(config),
        pool_(kPages, kPageTokens,
              PoolLayout::of(config, DType::f32, kPageTokens).chunks_per_page) {
    device_ = make_test_device();
    const ModelLimits limits{kMaxRows * 2, kMaxRows, kMaxLen, 64};
    model_ = Model::load(config_, *make_dummy_weights(3), DType::f32, limits, *device_,
                         [](std::size_t, std::size_t) {})
                 .value();
    store_ = AdapterStore::create(*device_, config_, DType::f32, {8, 64, 16 << 20}).value();
    cache_ = std::make_unique<KvCache>(
        KvCache::create(*device_, PoolLayout::of(config_, DType::f32, kPageTokens), kPages)
            .value());
    tier_ = DeviceTier::create({{device_.get(), cache_.get()}}, config_, DType::f32, 64, 8, pool_)
                .value();
    const std::vector<std::pair<std::int32_t, std::vector<std::string_view>>> kinds = {
        {4, {"q_proj", "v_proj"}},
        {8, {"q_proj", "v_proj", "o_proj"}},
        {16, {"q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"}},
        {24, {"up_proj"}},
        {64, {"k_proj", "down_proj"}}};
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      Adapter adapter =
          make_dummy_adapter(config_, DType::f32, kinds[i].first, kinds[i].second, 70 + i);
      EXPECT_TRUE(store_->add(name(i), std::move(adapter), false, false).ok());
      EXPECT_EQ(tier_->start(store_->find(name(i))), DeviceTier::Start::on_its_way);
    }
    EXPECT_TRUE(tier_->finish_loads().ok());
    batch_ = std::make_unique<StepBatch>(
        StepBatch::create(*device_, {kMaxRows * 2, kMaxRows, kMaxRows, kPages, 64, 16}).value());
    stream_ = device_->create_stream("test").value();
  }

  static std::string name(std::size_t i) { return fmt::format("a{}", i); }

  AdapterSlot slot_of(int adapter) {
    return tier_->slot(*store_->find(name(static_cast<std::size_t>(adapter))));
  }

  struct Row {
    TokenId token;
    std::int64_t position;
    std::size_t table;
    int adapter;  // -1: the base model
  };

  void fill(const std::vector<Row>& rows) {
    batch_->clear();
    for (const Row& row : rows) {
      const AdapterSlot slot = row.adapter < 0 ? AdapterSlot{} : slot_of(row.adapter);
      const std::int32_t first = batch_->add_sequence(
          {&row.token, 1}, row.position, tables_[row.table].pages(), kPageTokens, slot);
      batch_->add_sample(first, {}, {}, {});
    }
  }

  std::vector<float> logits(std::int32_t count) {
    std::vector<float> result(static_cast<std::size_t>(count * config_.vocab_size));
    stream_->copy_to_host(result.data(), model_->logits(count).data, result.size() * sizeof(float));
    const Status status = stream_->synchronize();
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }

  std::unique_ptr<Device> device_;
  ModelSpec config_;
  PagePool pool_;
  std::vector<BlockTable> tables_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<AdapterStore> store_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<DeviceTier> tier_;
  std::unique_ptr<StepBatch> batch_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace tandem::test
