// Compares the forward pass with transformers + PEFT, using model and step batch without an engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "engine/adapters/adapter_store.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/loader/weights.h"
#include "engine/memory/block_table.h"
#include "engine/model/families/registry.h"
#include "engine/model/model.h"
#include "tests/support/golden.h"
#include "tests/support/test_device.h"

namespace tandem::test {
namespace {

constexpr std::int32_t kPageTokens = 8;
constexpr std::int32_t kMaxRows = 256;
constexpr std::int32_t kPages = 64 + 256;  // for KV and adapters

class GoldenLogits : public ::testing::TestWithParam<GoldenModel> {
 protected:
  void SetUp() override {
    device_ = make_test_device();
    config_ = load_model_spec(GetParam().dir).value();
    const auto weights = open_checkpoint(GetParam().dir).value();
    const ModelLimits limits{kMaxRows, 8, 512, 64};
    model_ = Model::load(config_, *weights, DType::f32, limits, *device_, nullptr).value();
    store_ = AdapterStore::create(*device_, config_, DType::f32, {8, 64, 16 << 20}).value();
    const PoolLayout layout = PoolLayout::of(config_, DType::f32, kPageTokens);
    cache_ = std::make_unique<KvCache>(KvCache::create(*device_, layout, kPages).value());
    pool_ = std::make_unique<PagePool>(kPages, kPageTokens, layout.chunks_per_page);
    tier_ = DeviceTier::create({{device_.get(), cache_.get()}}, config_, DType::f32, 64, 8, *pool_)
                .value();
    batch_ = std::make_unique<StepBatch>(
        StepBatch::create(*device_, {kMaxRows, 8, 8, 64, 1024, 64}).value());
    stream_ = device_->create_stream("test").value();
    const Status tuned = model_->tune(*stream_);
    ASSERT_TRUE(tuned.ok()) << tuned.message();
  }

  // Returns the logits after the prompt's last token, computed `chunk` tokens at a time.
  std::vector<float> logits_after(const GoldenCase& golden, std::int64_t chunk) {
    AdapterSlot slot;
    if (!golden.adapter.empty()) {
      const std::string path = (GetParam().dir / "adapters" / golden.adapter).string();
      const Status status = store_->load(golden.adapter, path, false, false);
      EXPECT_TRUE(status.ok()) << status.message();
      const AdapterLease adapter = store_->find(golden.adapter);
      EXPECT_EQ(tier_->start(adapter), DeviceTier::Start::on_its_way);
      EXPECT_TRUE(tier_->finish_loads().ok());
      slot = tier_->slot(*adapter);
    }
    BlockTable table(*pool_);
    const auto length = static_cast<std::int64_t>(golden.prompt.size());
    EXPECT_TRUE(table.reserve(length));
    std::vector<float> logits(static_cast<std::size_t>(config_.vocab_size));
    for (std::int64_t start = 0; start < length; start += chunk) {
      const std::int64_t count = std::min(chunk, length - start);
      batch_->clear();
      batch_->add_sequence({golden.prompt.data() + start, static_cast<std::size_t>(count)}, start,
                           table.pages(), kPageTokens, slot);
      // Rows of the other chunks get no logits, as in the engine.
      if (start + count == length) {
        batch_->add_sample(static_cast<std::int32_t>(count - 1), {}, {}, {});
      }
      const StepInput input = batch_->upload(*stream_);
      model_->forward(*stream_, input, *cache_, tier_->lane(0).table());
      const Status status = stream_->synchronize();  // the batch's memory is reused
      EXPECT_TRUE(status.ok()) << status.message();
    }
    stream_->copy_to_host(logits.data(), model_->logits(1).data, logits.size() * sizeof(float));
    const Status status = stream_->synchronize();
    EXPECT_TRUE(status.ok()) << status.message();
    return logits;
  }

  void expect_close(const std::vector<float>& got, const GoldenCase& golden) {
    float largest = 0;
    float worst = 0;
    for (std::size_t i = 0; i < golden.logits.size(); ++i) {
      largest = std::max(largest, std::abs(golden.logits[i]));
      worst = std::max(worst, std::abs(golden.logits[i] - got[i]));
    }
    EXPECT_LE(worst, 1e-3F * largest) << golden.name();
  }

  std::unique_ptr<Device> device_;
  ModelSpec config_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<AdapterStore> store_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<DeviceTier> tier_;
  std::unique_ptr<StepBatch> batch_;
  std::unique_ptr<Stream> stream_;
};

TEST_P(GoldenLogits, AgreeInOneStep) {
  for (const GoldenCase& golden : read_golden(GetParam().golden)) {
    ASSERT_EQ(golden.logits.size(), static_cast<std::size_t>(config_.vocab_size));
    expect_close(logits_after(golden, kMaxRows), golden);
  }
}

TEST_P(GoldenLogits, AgreeInChunksOfSeven) {
  for (const GoldenCase& golden : read_golden(GetParam().golden)) {
    expect_close(logits_after(golden, 7), golden);
  }
}

std::vector<GoldenModel> models_with_logits() {
  std::vector<GoldenModel> models = golden_models();
  models.erase(models.begin());  // golden.json has tokens only
  return models;
}

INSTANTIATE_TEST_SUITE_P(Tiny, GoldenLogits, ::testing::ValuesIn(models_with_logits()),
                         [](const auto& param) {
                           std::string name = param.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem::test
