// The order of operations within and across streams, through the device interface.
#include <atomic>
#include <latch>
#include <thread>

#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {
namespace {

class Streams : public OpsTest {
 protected:
  std::unique_ptr<Stream> stream(const char* name) {
    return std::move(device_->create_stream(name)).value();
  }
  Buffer buffer(std::size_t bytes) { return std::move(device_->allocate(bytes, "test")).value(); }
};

TEST_F(Streams, RunCopiesInOrder) {
  const Buffer device = buffer(64);
  for (int round = 0; round < 200; ++round) {
    std::int64_t first = round;
    std::int64_t second = round + 1000;
    std::int64_t back = 0;
    stream_->copy_to_device(device.data(), &first, sizeof first);
    stream_->copy_to_device(device.data(), &second, sizeof second);
    stream_->copy_to_host(&back, device.data(), sizeof back);
    ASSERT_TRUE(stream_->synchronize().ok());
    ASSERT_EQ(back, second);
  }
}

TEST_F(Streams, CopyRowsOneAfterAnother) {
  constexpr std::size_t kPitch = 40;
  std::vector<std::uint8_t> host(30 * kPitch);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<std::uint8_t>(i % 251);
  const Buffer device = buffer(host.size());
  std::vector<std::uint8_t> back(host.size());
  for (const std::size_t row_bytes : {1U, 16U, 27U, 40U}) {
    for (const std::size_t rows : {0U, 1U, 30U}) {
      const std::vector<std::uint8_t> poison(host.size(), 255);
      stream_->copy_to_device(device.data(), poison.data(), poison.size());
      stream_->copy_rows_to_device(device.data(), host.data(), row_bytes, kPitch, rows);
      stream_->copy_to_host(back.data(), device.data(), back.size());
      ASSERT_TRUE(stream_->synchronize().ok());
      for (std::size_t i = 0; i < back.size(); ++i) {
        const bool inside = i < rows * row_bytes;
        ASSERT_EQ(back[i], inside ? host[i / row_bytes * kPitch + i % row_bytes] : 255)
            << i << ": " << rows << " rows of " << row_bytes;
      }
    }
  }
}

TEST_F(Streams, UploadWhatIsAlignedToAnythingInOrderAndNoMore) {
  constexpr std::size_t kBytes = 5000;
  const Buffer pinned = std::move(device_->allocate_pinned(kBytes, "test")).value();
  const Buffer device = buffer(kBytes);
  std::vector<std::uint8_t> back(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) pinned.data()[i] = static_cast<std::byte>(i % 251);
  for (const std::size_t from : {0U, 16U, 8U, 4U, 1U}) {
    for (const std::size_t to : {0U, 4U, 3U}) {
      for (const std::size_t bytes : {0U, 1U, 15U, 16U, 17U, 2048U, 4099U}) {
        const std::vector<std::uint8_t> poison(kBytes, 255);
        stream_->copy_to_device(device.data(), poison.data(), kBytes);
        stream_->upload(device.data() + to, pinned.data() + from, bytes);
        stream_->copy_to_host(back.data(), device.data(), kBytes);
        ASSERT_TRUE(stream_->synchronize().ok());
        for (std::size_t i = 0; i < kBytes; ++i) {
          const bool inside = i >= to && i < to + bytes;
          ASSERT_EQ(back[i], inside ? (from + i - to) % 251 : 255)
              << i << ": " << bytes << " bytes from " << from << " to " << to;
        }
      }
    }
  }
}

TEST_F(Streams, WaitForEventsOfOtherStreams) {
  const auto load = stream("load");
  const Buffer device = buffer(std::size_t{1} << 20);
  std::vector<std::uint32_t> source(device.bytes() / 4);
  std::vector<std::uint32_t> target(source.size());
  const auto loaded = device_->create_event();
  const auto read = device_->create_event();
  for (std::uint32_t round = 1; round <= 30; ++round) {
    read->synchronize();  // `source` may change again afterwards
    std::fill(source.begin(), source.end(), round);
    load->wait(*read);
    load->copy_to_device(device.data(), source.data(), device.bytes());
    load->record(*loaded);
    stream_->wait(*loaded);
    stream_->copy_to_host(target.data(), device.data(), device.bytes());
    stream_->record(*read);
    read->synchronize();
    ASSERT_EQ(target.front(), round);
    ASSERT_EQ(target.back(), round);
  }
  EXPECT_TRUE(load->synchronize().ok());
  EXPECT_TRUE(stream_->synchronize().ok());
}

TEST_F(Streams, AnEventThatWasNeverRecordedHasPassed) {
  const auto event = device_->create_event();
  EXPECT_TRUE(event->passed());
  event->synchronize();
  stream_->wait(*event);
  EXPECT_TRUE(stream_->synchronize().ok());
}

TEST_F(Streams, AnEventHasPassedOnceItsStreamIsSynchronized) {
  const auto event = device_->create_event();
  stream_->record(*event);
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_TRUE(event->passed());
}

TEST_F(Streams, AnEventMayDieWhileAStreamStillWaitsForIt) {
  const auto other = stream("other");
  for (int round = 0; round < 100; ++round) {
    const auto event = device_->create_event();
    other->record(*event);
    stream_->wait(*event);
  }
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_TRUE(other->synchronize().ok());
}

TEST_F(Streams, RunTheirQueueBeforeTheyAreDestroyed) {
  const Buffer device = buffer(64);
  const std::int64_t value = 77;
  std::int64_t back = 0;
  {
    const auto brief = stream("brief");
    brief->copy_to_device(device.data(), &value, sizeof value);
    brief->copy_to_host(&back, device.data(), sizeof back);
  }
  EXPECT_EQ(back, 77);
}

TEST_F(Streams, ComputeFromSeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  const TestTensor x = tensor(DType::f32, {9, 64});
  const TestTensor w = tensor(DType::f32, {300, 64}, 0.1F);
  const TestTensor want = tensor(DType::f32, {9, 300});
  reference::gemm({x.host(), w.host(), {}, want.host()});
  std::vector<TestTensor> results;
  for (int i = 0; i < 3; ++i) results.push_back(tensor(DType::f32, {9, 300}));
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      const auto mine = stream("worker");
      for (int round = 0; round < 20; ++round) {
        mine->gemm(
            {x.on_device(), w.on_device(), {}, results[static_cast<std::size_t>(i)].on_device()});
      }
      EXPECT_TRUE(mine->synchronize().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (TestTensor& result : results) {
    reference::gemm({x.host(), w.host(), {}, result.host()});
    expect_same(result, "result");
  }
}

TEST_F(Streams, LaunchARecordingAgainAndAgainOverNewContents) {
  const TestTensor table = tensor(DType::f32, {10, 8});
  const TestTensor out = tensor(DType::f32, {1, 8});
  const Buffer ids = buffer(sizeof(std::int32_t));
  auto* const id_on_device = reinterpret_cast<std::int32_t*>(ids.data());
  ASSERT_TRUE(stream_->begin_recording().ok());
  stream_->embed({table.on_device(), id_on_device, out.on_device()});
  auto graph = stream_->end_recording();
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (std::int32_t id = 0; id < 10; ++id) {
    stream_->copy_to_device(ids.data(), &id, sizeof id);
    stream_->launch(**graph);
    ASSERT_TRUE(stream_->synchronize().ok());
    reference::embed({table.host(), &id, out.host()});
    expect_same(out, "launch", {0, 0});
  }
}

}  // namespace
}  // namespace tandem
