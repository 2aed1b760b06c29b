#include "engine/adapters/device_tier.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "engine/adapters/adapter_store.h"
#include "gpu/host/host_stream.h"
#include "tests/support/test_device.h"

namespace tandem::test {
namespace {

ModelConfig config_of_two_layers() {
  ModelConfig config;
  config.hidden_size = 64;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.ffn_size = 96;
  config.vocab_size = 128;
  config.max_position_embeddings = 64;
  return config;
}

class DeviceTierTest : public ::testing::Test {
 protected:
  static constexpr std::int32_t kPageTokens = 16;

  DeviceTierTest() {
    device_ = make_test_device();
    store_ = AdapterStore::create(*device_, config_, DType::f32, {8, 64, 4 << 20}).value();
    for (int i = 0; i < 3; ++i) {
      Adapter adapter = make_dummy_adapter(config_, DType::f32, 16, {Module::q, Module::down},
                                           static_cast<std::uint64_t>(i));
      chunks_ = layout_.chunks_for(adapter.num_bytes);
      EXPECT_TRUE(store_->add(std::to_string(i), std::move(adapter), false, false).ok());
    }
    pages_ = static_cast<std::int32_t>((2 * chunks_ + layout_.chunks_per_page - 1) /
                                       layout_.chunks_per_page);
    memory_ = KvCache::create(*device_, layout_, pages_).value();
    pool_ = std::make_unique<PagePool>(pages_, kPageTokens, layout_.chunks_per_page);
    tier_ = DeviceTier::create(*device_, config_, DType::f32, 64, 8, memory_, *pool_).value();
    compute_ = device_->create_stream("compute").value();
  }

  AdapterLease lease(int i) { return store_->find(std::to_string(i)); }
  void load(int i) {
    ASSERT_EQ(tier_->start(lease(i)), DeviceTier::Start::on_its_way);
    ASSERT_TRUE(tier_->finish_loads().ok());
  }
  bool arrives(int i, int looks) {
    for (int look = 0; look < looks; ++look) {
      EXPECT_TRUE(tier_->poll().ok());
      if (lease(i)->residency() == Residency::resident) return true;
      std::this_thread::yield();
    }
    return false;
  }
  // A step that runs until the promise is kept.
  void enqueue_step(std::promise<void>& end) {
    auto& stream = dynamic_cast<host::HostStream&>(*compute_);
    stream.run("step", [ended = end.get_future().share()] { ended.wait(); });
    tier_->step_enqueued(*compute_);
  }

  ModelConfig config_ = config_of_two_layers();
  PoolLayout layout_ = PoolLayout::of(config_, DType::f32, kPageTokens);
  std::int64_t chunks_ = 0;
  std::int32_t pages_ = 0;
  std::unique_ptr<Device> device_;
  std::unique_ptr<AdapterStore> store_;
  KvCache memory_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<DeviceTier> tier_;
  std::unique_ptr<Stream> compute_;
};

TEST_F(DeviceTierTest, EvictsTheLeastRecentlyUsedThatNobodyRuns) {
  load(0);
  load(1);
  tier_->enter(*lease(0));
  tier_->leave(*lease(0));
  load(2);
  EXPECT_EQ(lease(0)->residency(), Residency::resident);
  EXPECT_EQ(lease(1)->residency(), Residency::host);
  tier_->enter(*lease(0));
  tier_->enter(*lease(2));
  EXPECT_EQ(tier_->start(lease(1)), DeviceTier::Start::no_room);
  EXPECT_EQ(lease(0)->residency(), Residency::resident);
  tier_->leave(*lease(2));
  EXPECT_EQ(tier_->start(lease(1)), DeviceTier::Start::on_its_way);
  EXPECT_EQ(lease(2)->residency(), Residency::host);
  tier_->leave(*lease(0));
}

TEST_F(DeviceTierTest, LoadsIntoFreeChunksWhileAStepRuns) {
  std::promise<void> end;
  enqueue_step(end);
  ASSERT_EQ(tier_->start(lease(0)), DeviceTier::Start::on_its_way);
  EXPECT_TRUE(arrives(0, 1'000'000));
  end.set_value();
}

TEST_F(DeviceTierTest, WaitsForTheStepThatMayReadWhatItOverwrites) {
  load(0);
  load(1);
  std::promise<void> end;
  enqueue_step(end);  // as if with rows of both
  ASSERT_EQ(tier_->start(lease(2)), DeviceTier::Start::on_its_way);
  EXPECT_FALSE(arrives(2, 2000));
  end.set_value();
  EXPECT_TRUE(arrives(2, 10'000'000));
}

TEST_F(DeviceTierTest, CutsItsCopiesAtLayersAndGivesEventsBack) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(tier_->start(lease(round % 3)), DeviceTier::Start::on_its_way);
    std::vector<LayerEvents> pending;
    tier_->add_pending(*lease(round % 3), pending);
    if (!pending.empty()) {
      EXPECT_EQ(pending.front().size(), 2U);
    }
    ASSERT_TRUE(tier_->finish_loads().ok());
    pending.clear();
    tier_->add_pending(*lease(round % 3), pending);
    EXPECT_TRUE(pending.empty());
  }
  EXPECT_EQ(tier_->counts().loads, 20U);  // room for two, three in turn: each is a load
}

}  // namespace
}  // namespace tandem::test
