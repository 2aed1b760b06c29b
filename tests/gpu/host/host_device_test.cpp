#include "gpu/host/host_device.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <latch>
#include <stdexcept>

#include "base/onednn/matmul.h"
#include "gpu/host/host_event.h"
#include "gpu/host/host_stream.h"
#include "gpu/host/memory.h"

namespace tandem {
namespace {

using testing::HasSubstr;

TEST(HostDevice, RefusesOptionsThatMakeNoSense) {
  HostDeviceOptions threads;
  threads.num_threads = -1;
  EXPECT_THAT(make_host_device(threads).status().message(), HasSubstr("num_threads"));
  HostDeviceOptions link;
  link.link_gbps = -3;
  EXPECT_THAT(make_host_device(link).status().message(), HasSubstr("link_gbps"));
  link.link_gbps = std::nan("");
  EXPECT_THAT(make_host_device(link).status().message(), HasSubstr("link_gbps"));
  HostDeviceOptions cpus;
  cpus.cpus = {-5};
  EXPECT_THAT(make_host_device(cpus).status().message(), HasSubstr("cpu -5"));
}

TEST(HostDevice, SaysWhatItIs) {
  HostDeviceOptions options;
  options.num_threads = 2;
  options.memory_limit_bytes = 12345;
  const auto device = std::move(make_host_device(options)).value();
  EXPECT_THAT(device->info().name, HasSubstr("host: 2 threads"));
  EXPECT_EQ(device->info().memory_bytes, 12345U);
}

TEST(HostMemory, NamesPurposeBytesAndLimitWhenThereIsNotEnough) {
  host::MemoryPool memory(1 << 20);
  const auto refused = memory.allocate(2 << 20, "the KV cache");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::resource_exhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("the KV cache"));
  EXPECT_THAT(refused.status().message(), HasSubstr("2 MiB"));
  EXPECT_THAT(refused.status().message(), HasSubstr("1 MiB"));
}

TEST(HostMemory, CountsWhatIsInUseAndGivesItBack) {
  host::MemoryPool memory(1000);
  {
    const auto first = memory.allocate(600, "first");
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(memory.used_bytes(), 600U);
    EXPECT_FALSE(memory.allocate(500, "second").ok());
    EXPECT_TRUE(memory.allocate(400, "third").ok());
  }
  EXPECT_EQ(memory.used_bytes(), 0U);
}

TEST(HostMemory, AlignsBuffersAndLetsThemOutliveThePool) {
  Buffer small;
  Buffer large;
  {
    host::MemoryPool memory(std::size_t{1} << 40);
    small = std::move(memory.allocate(1, "small")).value();
    large = std::move(memory.allocate((std::size_t{5} << 20) + 3, "large")).value();
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data()) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % (2 << 20), 0U);
  EXPECT_TRUE(large.host_visible());
  large.data()[large.bytes() - 1] = std::byte{1};
}

TEST(HostMemory, RefusesASizeThatOverflows) {
  host::MemoryPool memory(~std::size_t{0});
  EXPECT_FALSE(memory.allocate(~std::size_t{0} - 100, "everything").ok());
  EXPECT_EQ(memory.used_bytes(), 0U);
}

class HostStreamTest : public testing::Test {
 protected:
  host::ThreadPool pool_{2, {}};
  MatmulCache matmuls_;
  LinkPacer link_{0};
};

TEST_F(HostStreamTest, ReportsAFailureOnceAndNamesTheOperation) {
  host::HostStream stream("faulty", pool_, matmuls_, link_);
  bool ran = false;
  stream.run("broken step", [] { throw std::runtime_error("no luck"); });
  stream.run("next step", [&] { ran = true; });
  const Status failure = stream.synchronize();
  EXPECT_EQ(failure.code(), StatusCode::internal);
  EXPECT_THAT(failure.message(), HasSubstr("broken step on stream faulty: no luck"));
  EXPECT_FALSE(ran) << "what follows a failure must not compute from its result";
  stream.run("next step", [&] { ran = true; });
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_TRUE(ran);
}

TEST_F(HostStreamTest, ReportsAFailureInsideThePool) {
  host::HostStream stream("faulty", pool_, matmuls_, link_);
  stream.run("parallel step", [&] {
    pool_.parallel_for(8, [](std::int64_t task, int) {
      if (task == 5) throw std::bad_alloc();
    });
  });
  const Status failure = stream.synchronize();
  EXPECT_EQ(failure.code(), StatusCode::resource_exhausted);
  EXPECT_THAT(failure.message(), HasSubstr("parallel step"));
}

TEST_F(HostStreamTest, PassesEventsEvenAfterAFailure) {
  host::HostStream faulty("faulty", pool_, matmuls_, link_);
  host::HostStream other("other", pool_, matmuls_, link_);
  host::HostEvent event;
  faulty.run("broken step", [] { throw std::runtime_error("no luck"); });
  EXPECT_FALSE(other.failed());
  faulty.record(event);
  other.wait(event);
  EXPECT_TRUE(other.synchronize().ok());
  EXPECT_TRUE(event.passed());
  EXPECT_TRUE(faulty.failed());
  EXPECT_FALSE(other.failed());
  EXPECT_FALSE(faulty.synchronize().ok());
  EXPECT_FALSE(faulty.failed());
}

TEST_F(HostStreamTest, AnEventPassesOnlyWhenItsStreamReachesIt) {
  host::HostStream first("first", pool_, matmuls_, link_);
  host::HostStream second("second", pool_, matmuls_, link_);
  host::HostEvent event;
  std::latch gate(1);
  int order = 0;
  int seen = 0;
  first.run("gate", [&] {
    gate.wait();
    order = 1;
  });
  first.record(event);
  second.wait(event);
  second.run("look", [&] { seen = order; });
  EXPECT_FALSE(event.passed());
  gate.count_down();
  EXPECT_TRUE(second.synchronize().ok());
  EXPECT_EQ(seen, 1);
  EXPECT_TRUE(first.synchronize().ok());
}

TEST_F(HostStreamTest, RecordingAgainWaitsForTheNewPoint) {
  host::HostStream stream("one", pool_, matmuls_, link_);
  host::HostEvent event;
  stream.record(event);
  event.synchronize();
  std::latch gate(1);
  stream.run("gate", [&] { gate.wait(); });
  stream.record(event);
  EXPECT_FALSE(event.passed());
  gate.count_down();
  event.synchronize();
  EXPECT_TRUE(event.passed());
}

TEST_F(HostStreamTest, AcceptsMoreOperationsThanItsQueueHolds) {
  host::HostStream stream("long", pool_, matmuls_, link_);
  std::size_t runs = 0;
  for (std::size_t i = 0; i < 3 * host::HostStream::kMaxQueued; ++i) {
    stream.run("count", [&] { ++runs; });
  }
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(runs, 3 * host::HostStream::kMaxQueued);
}

TEST_F(HostStreamTest, GivesUpAForgottenFlagWhenItIsDestroyed) {
  const std::uint32_t flag = 0;
  bool ran = false;
  host::HostEvent event;
  {
    host::HostStream stream("forgotten", pool_, matmuls_, link_);
    stream.wait_flag(&flag, 1);
    stream.run("what comes after", [&] { ran = true; });
    stream.record(event);
  }
  EXPECT_FALSE(ran);
  EXPECT_TRUE(event.passed()) << "those who wait for the stream are let go";
}

TEST_F(HostStreamTest, LeavesThePoolToOthersWhileItWaitsForAFlag) {
  std::uint32_t flag = 0;
  host::HostStream waiting("waiting", pool_, matmuls_, link_);
  host::HostStream computing("computing", pool_, matmuls_, link_);
  waiting.wait_flag(&flag, 1);
  std::atomic<int> tasks = 0;
  computing.run("tasks", [&] { pool_.parallel_for(50, [&](std::int64_t, int) { ++tasks; }); });
  EXPECT_TRUE(computing.synchronize().ok());
  EXPECT_EQ(tasks, 50);
  // release: pairs with the acquire of the stream's wait
  std::atomic_ref<std::uint32_t>(flag).store(1, std::memory_order_release);
  EXPECT_TRUE(waiting.synchronize().ok());
}

// One stream copies for a whole second; data that a step needs on another stream must not wait.
TEST(HostDevice, UploadsAreNotThrottled) {
  HostDeviceOptions options;
  options.num_threads = 1;
  options.link_gbps = 0.001;
  const auto device = std::move(make_host_device(options)).value();
  const Buffer memory = std::move(device->allocate(1 << 20, "test")).value();
  const Buffer source = std::move(device->allocate_pinned(1 << 20, "test")).value();
  const auto load = std::move(device->create_stream("load")).value();
  const auto compute = std::move(device->create_stream("compute")).value();
  const auto loaded = device->create_event();
  load->copy_to_device(memory.data() + 4096, source.data(), (1 << 20) - 4096);
  load->record(*loaded);
  compute->upload(memory.data(), source.data(), 4096);
  EXPECT_TRUE(compute->synchronize().ok());
  EXPECT_FALSE(loaded->passed());
  EXPECT_TRUE(load->synchronize().ok());
}

}  // namespace
}  // namespace tandem
