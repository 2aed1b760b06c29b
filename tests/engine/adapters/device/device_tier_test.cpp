#include "engine/adapters/device/device_tier.h"

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <stdexcept>
#include <thread>

#include "engine/adapters/adapter_store.h"
#include "engine/adapters/device/load_waits.h"
#include "gpu/host/host_stream.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/small_model.h"
#include "tests/support/test_device.h"

namespace tandem::test {
namespace {

class DeviceTierTest : public ::testing::Test {
 protected:
  static constexpr std::int32_t kPageTokens = 16;

  DeviceTierTest() {
    device_ = make_test_device();
    store_ = AdapterStore::create(*device_, config_, DType::f32, {8, 64, 4 << 20}).value();
    for (int i = 0; i < 3; ++i) {
      Adapter adapter = make_dummy_adapter(config_, DType::f32, 16, {"q_proj", "down_proj"},
                                           static_cast<std::uint64_t>(i));
      chunks_ = layout_.chunks_for(adapter.num_bytes);
      EXPECT_TRUE(store_->add(std::to_string(i), std::move(adapter), false, false).ok());
    }
    pages_ = static_cast<std::int32_t>((2 * chunks_ + layout_.chunks_per_page - 1) /
                                       layout_.chunks_per_page);
    memory_ = KvCache::create(*device_, layout_, pages_).value();
    pool_ = std::make_unique<PagePool>(pages_, kPageTokens, layout_.chunks_per_page);
    tier_ =
        DeviceTier::create({{device_.get(), &memory_}}, config_, DType::f32, 64, 8, *pool_).value();
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
  // Enqueues a step that runs until the promise is fulfilled.
  void enqueue_step(std::promise<void>& end) {
    auto& stream = dynamic_cast<host::HostStream&>(*compute_);
    tier_->step_begins();
    tier_->lane(0).step_begins(*compute_);
    stream.run("step", [ended = end.get_future().share()] { ended.wait(); });
    tier_->lane(0).step_ends(*compute_);
    tier_->step_ends();
  }

  ModelSpec config_ = small_model(2);
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
  tier_->holds().enter(*lease(0));
  tier_->holds().leave(*lease(0));
  load(2);
  EXPECT_EQ(lease(0)->residency(), Residency::resident);
  EXPECT_EQ(lease(1)->residency(), Residency::host);
  tier_->holds().enter(*lease(0));
  tier_->holds().enter(*lease(2));
  EXPECT_EQ(tier_->start(lease(1)), DeviceTier::Start::no_room);
  EXPECT_EQ(lease(0)->residency(), Residency::resident);
  tier_->holds().leave(*lease(2));
  EXPECT_EQ(tier_->start(lease(1)), DeviceTier::Start::on_its_way);
  EXPECT_EQ(lease(2)->residency(), Residency::host);
  tier_->holds().leave(*lease(0));
}

TEST_F(DeviceTierTest, HasNoRoomForAnAdapterOfMoreChunksThanARow) {
  constexpr std::int32_t kSlots = 1 << 16;
  const auto store =
      AdapterStore::create(*device_, config_, DType::f32, {8, 2048, 64 << 20}).value();
  const std::vector<std::string_view> all = {"q_proj",  "k_proj",    "v_proj",   "o_proj",
                                             "up_proj", "gate_proj", "down_proj"};
  Adapter large = make_dummy_adapter(config_, DType::f32, 2048, all, 1);
  ASSERT_GT(layout_.chunks_for(large.num_bytes), most_chunks_of_row(kSlots));
  ASSERT_TRUE(store->add("large", std::move(large), false, false).ok());
  PagePool pool(pages_, kPageTokens, layout_.chunks_per_page);
  DeviceTable table(kSlots, layout_, pool);
  const DeviceHolds holds(table, pool);
  const DeviceRoom room(table, holds, memory_, pool);
  EXPECT_TRUE(room.check_size(*lease(0)).ok());
  const Status refused = room.check_size(*store->find("large"));
  EXPECT_EQ(refused.code(), StatusCode::resource_exhausted);
  EXPECT_NE(refused.message().find("lower max_device_adapters"), std::string::npos)
      << refused.message();
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
  enqueue_step(end);  // like a step with rows of both
  ASSERT_EQ(tier_->start(lease(2)), DeviceTier::Start::on_its_way);
  EXPECT_FALSE(arrives(2, 2000));
  end.set_value();
  EXPECT_TRUE(arrives(2, 10'000'000));
}

TEST_F(DeviceTierTest, CutsItsCopiesAtLayersAndGivesEventsBack) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(tier_->start(lease(round % 3)), DeviceTier::Start::on_its_way);
    LoadWaits waits(tier_->loads().first(), 2);
    waits.add_all(lease(round % 3));
    for (std::int64_t layer = 0; layer < 2; ++layer) waits.before(layer, *compute_);
    ASSERT_TRUE(tier_->finish_loads().ok());
    waits.clear();
    waits.add_all(lease(round % 3));
    EXPECT_TRUE(waits.empty());
  }
  EXPECT_EQ(tier_->counts().loads, 20U);  // three adapters in room for two: each use is a load
}

// A device that exposes the stream of its loads.
class LoadStreamDevice : public ForwardingDevice {
 public:
  LoadStreamDevice() : ForwardingDevice(make_test_device()) {}
  Result<std::unique_ptr<Stream>> create_stream(std::string_view name) override {
    TANDEM_ASSIGN(std::unique_ptr<Stream> stream, ForwardingDevice::create_stream(name));
    if (name == "adapter load") loads = dynamic_cast<host::HostStream*>(stream.get());
    return stream;
  }
  host::HostStream* loads = nullptr;
};

TEST_F(DeviceTierTest, LoadsAgainWhatFailedWithTheDevice) {
  tier_.reset();
  LoadStreamDevice device;
  tier_ = DeviceTier::create({{&device, &memory_}}, config_, DType::f32, 64, 8, *pool_).value();
  device.loads->run("a copy", [] { throw std::runtime_error("lost"); });
  ASSERT_EQ(tier_->start(lease(0)), DeviceTier::Start::on_its_way);
  tier_->holds().enter(*lease(0));
  tier_->holds().keep(*lease(0));
  while (!device.loads->failed()) std::this_thread::yield();
  EXPECT_FALSE(tier_->poll().ok());
  EXPECT_EQ(lease(0)->residency(), Residency::host);
  EXPECT_FALSE(tier_->holds().is_kept(*lease(0)));
  EXPECT_EQ(tier_->counts().loads, 0U);
  EXPECT_EQ(pool_->num_free(), pool_->shape().num_pages);
  tier_->holds().leave(*lease(0));  // its last user ends
  load(0);
  EXPECT_EQ(lease(0)->residency(), Residency::resident);
  tier_.reset();  // destroyed before its device
}

// Loads are sent in pieces, and the device sees their arrival.
class ReadyWords : public DeviceTierTest {
 protected:
  ReadyWords() {
    signals_.words = LoadSignals::Words::layers;
    signals_.clock = &clock_;
    tier_.reset();
    tier_ = DeviceTier::create({{device_.get(), &memory_}}, config_, DType::f32, 64, 8, *pool_,
                               signals_)
                .value();
  }
  // Returns the words of A and B for both layers, then those of the whole.
  std::vector<std::uint32_t> words(SlotId slot) {
    std::vector<std::uint32_t> values(6);
    compute_->copy_to_host(values.data(),
                           tier_->loads().first().stream().slots().ready_words() + slot.value() * 6,
                           6 * 4);
    EXPECT_TRUE(compute_->synchronize().ok());
    return values;
  }
  std::vector<std::byte> bytes_of(int i) {
    const AdapterLease adapter = lease(i);
    std::vector<std::byte> bytes(adapter->bytes());
    // Found through the tables, as a kernel does.
    const AdapterTable table = tier_->lane(0).table();
    const std::int32_t slot = tier_->slot(*adapter).slot.value();
    const std::uint64_t chunk = std::uint64_t{1} << table.pages.shift;
    for (std::uint64_t at = 0; at < bytes.size(); at += chunk) {
      const auto id = static_cast<std::uint64_t>(
          table.pages.ids[slot * table.pages.slot_stride +
                          static_cast<std::int64_t>(at >> table.pages.shift)]);
      std::memcpy(bytes.data() + at, table.pages.base + id * chunk,
                  std::min(chunk, bytes.size() - at));
    }
    return bytes;
  }

  SteadyClock clock_;
  LoadSignals signals_;
};

TEST_F(ReadyWords, HoldTheGenerationOfTheLoadThatHasArrived) {
  load(0);
  const SlotId slot = tier_->slot(*lease(0)).slot;
  EXPECT_EQ(words(slot), std::vector<std::uint32_t>(6, 1));
  tier_->room().evict_idle();
  load(1);
  EXPECT_EQ(tier_->slot(*lease(1)).slot, slot);
  EXPECT_EQ(words(slot), std::vector<std::uint32_t>(6, 2));
}

TEST_F(ReadyWords, ArriveInTheOrderOfThePieces) {
  std::promise<void> end;
  load(2);
  enqueue_step(end);  // delays the loads: it may read what they overwrite
  tier_->room().evict_idle();
  const std::vector<LoadPiece> order = {
      {1, 0, PieceKind::b}, {0, 1, PieceKind::layer}, {1, 0, PieceKind::a}};
  {
    DeviceTier::Turn turn(*tier_);
    ASSERT_EQ(turn.reserve(lease(0)), DeviceTier::Start::on_its_way);
    ASSERT_EQ(turn.reserve(lease(1)), DeviceTier::Start::on_its_way);
    turn.enqueue(order);
  }
  const auto first = tier_->loads().first().in_flight().arriving(*lease(0));
  const auto second = tier_->loads().first().in_flight().arriving(*lease(1));
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->generation, second->generation);
  EXPECT_EQ(first->b_parts[0], nullptr);
  ASSERT_NE(second->b_parts[0], nullptr);
  EXPECT_FALSE(second->b_parts[0]->passed());
  EXPECT_LT(second->arrivals[0].b, first->arrivals[1].a);
  EXPECT_LT(first->arrivals[1].a, second->arrivals[0].a);
  EXPECT_LT(second->arrivals[0].a, first->arrivals[0].a);
  EXPECT_LT(first->arrivals[0].a, second->arrivals[1].a);
  end.set_value();
  ASSERT_TRUE(tier_->finish_loads().ok());
  EXPECT_FALSE(tier_->loads().first().in_flight().arriving(*lease(1)).has_value());
  tier_->lane(0).step_begins(*compute_);  // writes the tables
  for (const int i : {0, 1}) {
    EXPECT_EQ(words(tier_->slot(*lease(i)).slot), std::vector<std::uint32_t>(6, 2U + unsigned(i)));
    const Adapter adapter = make_dummy_adapter(config_, DType::f32, 16, {"q_proj", "down_proj"},
                                               static_cast<std::uint64_t>(i));
    EXPECT_EQ(std::memcmp(bytes_of(i).data(), adapter.bytes.get(), adapter.num_bytes), 0);
  }
}

TEST_F(ReadyWords, OfAWholeLoadAreItsLastRowAlone) {
  signals_.words = LoadSignals::Words::whole;
  tier_.reset();
  tier_ =
      DeviceTier::create({{device_.get(), &memory_}}, config_, DType::f32, 64, 8, *pool_, signals_)
          .value();
  load(0);
  EXPECT_EQ(words(tier_->slot(*lease(0)).slot), (std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1}));
}

}  // namespace
}  // namespace tandem::test
