// Adapters are used while threads still read them from their folders.
#include "engine/adapters/adapter_reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <optional>
#include <thread>

#include "base/file/file.h"
#include "engine/adapters/adapter_store.h"
#include "engine/adapters/device/device_tier.h"
#include "engine/loader/peft/peft_reader.h"
#include "tests/engine/adapters/adapter_being_read.h"
#include "tests/support/peft_writer.h"
#include "tests/support/small_model.h"
#include "tests/support/test_device.h"

namespace tandem::test {
namespace {

using ::testing::HasSubstr;
using State = AdapterReading::State;

class AdapterReadingTest : public ::testing::Test {
 protected:
  AdapterReadingTest() {
    adapter_.num_bytes = 100;
    adapter_.layers = AdapterLayers(4, 1);
    for (const std::size_t layer : {0U, 2U, 3U}) adapter_.layers[layer][0].rank = 8;
    memory_.resize(AdapterReading::bytes_with_words(100, 4) / 4, ~0U);
    reading_.emplace(adapter_, reinterpret_cast<std::byte*>(memory_.data()), 9);
  }
  std::vector<bool> there() const {
    std::vector<bool> result;
    for (std::size_t layer = 0; layer < 4; ++layer) result.push_back(reading_->is_there(layer));
    return result;
  }

  Adapter adapter_;
  std::vector<std::uint32_t> memory_;
  std::optional<AdapterReading> reading_;
};

TEST_F(AdapterReadingTest, TellsOfLayersOneByOneAndOfThoseWithoutModulesAtOnce) {
  EXPECT_EQ(there(), (std::vector<bool>{false, true, false, false}));
  reading_->layer_there(2);
  EXPECT_EQ(there(), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(*reading_->word(2), 9U);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(reading_->word(0)) -
                reinterpret_cast<const std::byte*>(memory_.data()),
            128)
      << "the words lie behind the bytes, on lines of their own";
  EXPECT_EQ(memory_[24], ~0U) << "the bytes are not touched";
}

TEST_F(AdapterReadingTest, SetsEveryWordWhenItEndsHoweverItEnds) {
  reading_->show();
  reading_->end(Status(StatusCode::unavailable, "no"));
  EXPECT_EQ(reading_->state(), State::bad);
  EXPECT_EQ(there(), std::vector<bool>(4, true));
  reading_->end({});
  EXPECT_EQ(reading_->wait().message(), "no") << "the first end counts";
}

TEST_F(AdapterReadingTest, LetsThoseWhoWaitGoWhenItHasEnded) {
  reading_->show();
  std::thread reader([this] { reading_->end({}); });
  EXPECT_TRUE(reading_->wait().ok());
  reader.join();
  EXPECT_EQ(reading_->state(), State::good);
}

TEST_F(AdapterReadingTest, SaysWhichLayersAreLeftUntilItHasEnded) {
  reading_->layer_there(2);
  const std::vector<double> left = reading_->seconds_left();
  ASSERT_EQ(left.size(), 4U);
  EXPECT_GT(left[0], 0);
  EXPECT_EQ(left[1], 0) << "there is nothing of it";
  EXPECT_EQ(left[2], 0);
  EXPECT_GE(left[3], left[0]);
  EXPECT_GT(reading_->rest().count(), 0);
  reading_->end({});
  EXPECT_TRUE(reading_->seconds_left().empty());
  EXPECT_EQ(reading_->rest().count(), 0);
}

TEST_F(AdapterReadingTest, IsLostWhenItTakesTooLong) {
  reading_->show(std::chrono::milliseconds(2));
  EXPECT_THAT(reading_->wait().message(), HasSubstr("could not be read within 0.002 s"));
  EXPECT_EQ(there(), std::vector<bool>(4, true)) << "no stream may wait for it any more";
}

TEST_F(AdapterReadingTest, IsLostToThosePassingByWhenItTakesTooLong) {
  reading_->show();
  reading_->end_if_overdue();
  EXPECT_EQ(reading_->state(), State::reading);
  reading_->show(std::chrono::milliseconds(-1));
  reading_->end_if_overdue();
  EXPECT_EQ(reading_->state(), State::bad);
}

// An adapter in a folder, and a host tier with room only for it.
class AdaptersBeingRead : public ::testing::Test {
 protected:
  static constexpr std::int32_t kPageTokens = 16;

  AdaptersBeingRead() {
    later_ns_ = 0;
    path_ = testing::write_peft_adapter(dir_, "a", config_, 16, kModules, 1);
    other_ = testing::write_peft_adapter(dir_, "b", config_, 16, kModules, 2);
    known_ = load_peft_adapter(path_, config_, DType::f32).value();
    device_ = make_test_device();
    store_ = AdapterStore::create(*device_, config_, DType::f32,
                                  {8, 64, (known_.num_bytes + 8191) / 4096 * 4096,
                                   [] { return unix_now_ns() + later_ns_; }})
                 .value();
    store_->on_news([this] { news(); });
    memory_ = KvCache::create(*device_, layout_, kPages).value();
    pool_ = std::make_unique<PagePool>(kPages, kPageTokens, layout_.chunks_per_page);
    tier_ =
        DeviceTier::create({{device_.get(), &memory_}}, config_, DType::f32, 64, 8, *pool_).value();
    EXPECT_TRUE(store_->load("a", path_, false, false).ok());
    EXPECT_TRUE(store_->load("b", other_, false, false).ok());
    lease_ = store_->find("a");
    EXPECT_EQ(lease_->residency(), Residency::on_disk);
  }

  // Runs on the reading thread when the adapter is shown, and blocks until the test lets it go on.
  void news() {
    if (!hold_.exchange(false)) return;
    shown_.count_down();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!go_on_.try_wait() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
  }
  void change_content() {
    const std::filesystem::path file = std::filesystem::path(path_) / "adapter_model.safetensors";
    std::fstream weights(file, std::ios::in | std::ios::out | std::ios::binary);
    weights.seekp(-2, std::ios::end);  // the third byte of a float
    weights.put('\x11');
  }
  void restore_content() { testing::write_peft_adapter(dir_, "a", config_, 16, kModules, 1); }
  // Returns once reading has begun; it does not end before go_on_.
  void begin_reading() {
    hold_ = true;
    store_->request_read(lease_);
    shown_.wait();
  }
  template <typename Condition>
  bool soon(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      EXPECT_TRUE(tier_->poll().ok());
      std::this_thread::yield();
    }
    return true;
  }
  // True if the device holds the adapter, read through the tables as the kernels do.
  bool device_holds_it() {
    const AdapterTable table = tier_->lane(0).table();
    const std::int32_t slot = tier_->slot(*lease_).slot.value();
    const std::size_t chunk = std::size_t{1} << table.pages.shift;
    for (std::size_t begin = 0; begin < known_.num_bytes; begin += chunk) {
      const std::int32_t id =
          table.pages
              .ids[slot * table.pages.slot_stride + static_cast<std::int64_t>(begin / chunk)];
      const std::byte* at = table.pages.base + static_cast<std::size_t>(id) * chunk;
      const std::size_t bytes = std::min(chunk, known_.num_bytes - begin);
      if (std::memcmp(at, known_.bytes.get() + begin, bytes) != 0) return false;
    }
    return true;
  }

  static inline const std::vector<std::string_view> kModules = {"q_proj", "down_proj"};
  static inline std::atomic<std::int64_t> later_ns_ = 0;
  static constexpr std::int32_t kPages = 60;
  testing::TempDir dir_;
  const ModelSpec config_ = small_model(5);
  const PoolLayout layout_ = PoolLayout::of(config_, DType::f32, kPageTokens);
  std::string path_, other_;
  Adapter known_;
  std::atomic<bool> hold_{false};
  std::latch shown_{1};
  std::latch go_on_{1};
  std::unique_ptr<Device> device_;
  KvCache memory_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<DeviceTier> tier_;
  AdapterLease lease_;
  std::unique_ptr<AdapterStore> store_;  // destroyed first: its threads end the reading
};

TEST_F(AdaptersBeingRead, AreLoadedMeanwhile) {
  begin_reading();
  EXPECT_EQ(lease_->residency(), Residency::host);
  EXPECT_EQ(tier_->start(lease_), DeviceTier::Start::on_its_way);
  EXPECT_FALSE(tier_->proof(*lease_).is_given());
  EXPECT_TRUE(tier_->proof(*lease_).status().ok());
  go_on_.count_down();
  EXPECT_TRUE(tier_->proof(*lease_).wait().ok());
  ASSERT_TRUE(tier_->finish_loads().ok());
  EXPECT_EQ(lease_->residency(), Residency::resident);
  EXPECT_TRUE(tier_->proof(*lease_).is_given());
  EXPECT_TRUE(device_holds_it());
}

// Layers that are not read yet are not expected before they are, nor are those behind them.
TEST(LoadsOfWhatIsRead, AreExpectedOnTheDeviceAsItIsRead) {
  constexpr double kStandsStill_s = 10e-3;
  AdapterBeingRead read(1e15);
  read.reading->layer_there(0);
  const TimePoint before = read.clock.now();
  const std::vector<double> unread = read.stand_still(kStandsStill_s);
  ASSERT_EQ(read.tier->start(read.lease), DeviceTier::Start::on_its_way);
  LoadQueue& loads = read.tier->loads().first();
  const auto arriving = loads.in_flight().arriving(*read.lease);
  ASSERT_TRUE(arriving);
  for (std::size_t layer = 0; layer < unread.size(); ++layer) {
    EXPECT_GE(arriving->arrivals[layer].a, before + duration_of(unread[layer])) << layer;
  }
  EXPECT_LT(arriving->arrivals[0].a, arriving->arrivals[1].a);
  EXPECT_GE(loads.link().free_at(), arriving->arrivals.back().a);
  EXPECT_GE(loads.in_flight().unread(*read.lease).back(), kStandsStill_s);
  read.end();
  EXPECT_TRUE(loads.in_flight().unread(*read.lease).empty());
  ASSERT_TRUE(read.tier->finish_loads().ok());
  EXPECT_EQ(read.lease->residency(), Residency::resident);
}

// New files are hashed, because they might change without a change of their time. Older files are
// recognised by their times.
TEST_F(AdaptersBeingRead, AreHashedOnlyUntilTheirFilesAreKnown) {
  const FileIdentity weights =
      File::open(std::filesystem::path(path_) / "adapter_model.safetensors")
          .value()
          .identity()
          .value();
  if (!weights.is_local) GTEST_SKIP() << "temporary files are on no local file system";
  later_ns_ = 60'000'000'000;
  for (const std::uint64_t hashed : {1U, 2U}) {  // a is hashed; then b is, and a no more
    store_->request_read(lease_);
    EXPECT_TRUE(soon([&] { return tier_->start(lease_) == DeviceTier::Start::on_its_way; }));
    EXPECT_TRUE(tier_->proof(*lease_).wait().ok());
    ASSERT_TRUE(tier_->finish_loads().ok());
    EXPECT_TRUE(device_holds_it());
    EXPECT_EQ(store_->hashed_reads(), hashed);
    tier_->room().evict_idle();
    // Adapter b takes its room in the host tier.
    EXPECT_TRUE(soon([&] {
      store_->request_read(store_->find("b"));
      return lease_->residency() == Residency::on_disk;
    }));
  }
}

TEST_F(AdaptersBeingRead, AreInTheHostTierOnceTheyHaveBeen) {
  begin_reading();
  go_on_.count_down();
  // A copy enqueued after the reading ended waits for nothing.
  EXPECT_TRUE(soon([&] { return tier_->start(lease_) == DeviceTier::Start::on_its_way; }));
  ASSERT_TRUE(tier_->finish_loads().ok());
  EXPECT_TRUE(tier_->proof(*lease_).wait().ok());
  EXPECT_TRUE(device_holds_it());
}

// The load ends, since all its words are set, and the copy is dropped when nobody uses it.
TEST_F(AdaptersBeingRead, AreLetGoWhenTheirContentHasChanged) {
  change_content();
  begin_reading();
  ASSERT_EQ(tier_->start(lease_), DeviceTier::Start::on_its_way);
  tier_->holds().enter(*lease_);
  go_on_.count_down();
  const Status why = tier_->proof(*lease_).wait();
  EXPECT_EQ(why.code(), StatusCode::unavailable);
  EXPECT_THAT(why.message(), HasSubstr("has changed since it was loaded"));
  EXPECT_TRUE(soon([&] { return lease_->residency() == Residency::resident; }));
  EXPECT_FALSE(tier_->proof(*lease_).is_given());
  EXPECT_TRUE(tier_->is_expecting());
  tier_->holds().leave(*lease_);
  EXPECT_TRUE(soon([&] { return lease_->residency() == Residency::on_disk; }));
  Status told;
  EXPECT_TRUE(soon([&] { return !(told = lease_->home().read_failure(0)).ok(); }));
  EXPECT_EQ(told.message(), why.message());
  EXPECT_TRUE(lease_->home().read_failure(lease_->home().num_readings()).ok())
      << "it is no answer to who asks after it";

  restore_content();
  EXPECT_TRUE(soon([&] {
    store_->request_read(lease_);
    return tier_->start(lease_) == DeviceTier::Start::on_its_way;
  }));
  ASSERT_TRUE(tier_->finish_loads().ok());
  EXPECT_TRUE(tier_->proof(*lease_).wait().ok());
  EXPECT_TRUE(device_holds_it());
}

TEST_F(AdaptersBeingRead, FallBackToTheirFolderWhenItFailsBeforeTheyAreLoaded) {
  change_content();
  begin_reading();
  EXPECT_EQ(lease_->residency(), Residency::host);
  go_on_.count_down();
  Status told;
  EXPECT_TRUE(soon([&] { return !(told = lease_->home().read_failure(0)).ok(); }));
  EXPECT_THAT(told.message(), HasSubstr("has changed since it was loaded"));
  EXPECT_EQ(tier_->start(lease_), DeviceTier::Start::not_in_host_tier);
  EXPECT_TRUE(soon([&] { return lease_->residency() == Residency::on_disk; }));
  EXPECT_TRUE(soon([&] { return store_->host_tier().used() == 0; })) << "b was pushed out";
}

TEST_F(AdaptersBeingRead, EndWithTheStoreThatReadsThem) {
  begin_reading();
  ASSERT_EQ(tier_->start(lease_), DeviceTier::Start::on_its_way);
  std::thread later([this] { go_on_.count_down(); });
  store_.reset();
  later.join();
  ASSERT_TRUE(tier_->finish_loads().ok());
  EXPECT_TRUE(device_holds_it());
}

}  // namespace
}  // namespace tandem::test
