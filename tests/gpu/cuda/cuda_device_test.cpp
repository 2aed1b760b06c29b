// Properties of the CUDA device alone: its messages, pinned memory, recordings and failures.
#include "gpu/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class CudaDeviceTest : public ::testing::Test {
 protected:
  Buffer buffer(std::size_t bytes) { return std::move(device_->allocate(bytes, "test")).value(); }

  // Fills `count` floats of device memory.
  void fill(const Buffer& to, std::size_t count, float value) {
    const std::vector<float> values(count, value);
    stream_->copy_to_device(to.data(), values.data(), count * sizeof(float));
    ASSERT_TRUE(stream_->synchronize().ok());
  }
  float first_of(const Buffer& from) {
    float value = 0;
    stream_->copy_to_host(&value, from.data(), sizeof value);
    const Status status = stream_->synchronize();
    EXPECT_TRUE(status.ok()) << status.message();
    return value;
  }
  // More columns than a launch can have, so it is refused before any memory is touched.
  static GatherRowsArgs impossible_gather(const Buffer& memory) {
    const TensorView view(memory.data(), DType::f32, {1, std::int64_t{1} << 34});
    return {view, reinterpret_cast<const std::int32_t*>(memory.data()), view};
  }

  std::unique_ptr<Device> device_ = std::move(make_cuda_device({})).value();
  std::unique_ptr<Stream> stream_ = std::move(device_->create_stream("test")).value();
};

TEST_F(CudaDeviceTest, SaysWhichGpuItIs) {
  EXPECT_TRUE(device_->info().is_cuda);
  EXPECT_EQ(device_->info().name, list_cuda_gpus()[0].name);
  EXPECT_GT(device_->free_bytes(), 0U);
  EXPECT_LT(device_->free_bytes(), device_->info().memory_bytes);
  EXPECT_THAT(describe_cuda(), HasSubstr(device_->info().name));
}

TEST_F(CudaDeviceTest, RefusesAGpuThatIsNotThere) {
  const auto device = make_cuda_device({1000});
  ASSERT_FALSE(device.ok());
  EXPECT_THAT(device.status().message(), HasSubstr("there is no GPU 1000"));
}

TEST_F(CudaDeviceTest, NamesThePurposeThatDoesNotFitAndGoesOn) {
  const auto refused = device_->allocate(std::size_t{1} << 50, "the page pool");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::resource_exhausted);
  EXPECT_THAT(refused.status().message(),
              AllOf(HasSubstr("the page pool"), HasSubstr("it needs 1125899.91 GB"),
                    HasSubstr("free on " + device_->info().name)));
  const Buffer memory = buffer(64);
  fill(memory, 1, 3.0F);
  EXPECT_EQ(first_of(memory), 3.0F);
}

TEST_F(CudaDeviceTest, GivesMemoryBack) {
  const std::size_t before = device_->free_bytes();
  {
    const Buffer memory = buffer(512 * kMiB);
    EXPECT_LE(device_->free_bytes(), before - 512 * kMiB);
  }
  EXPECT_EQ(device_->free_bytes(), before);
}

TEST_F(CudaDeviceTest, PinsMemoryOfTheCallerAndLetsGoOfIt) {
  void* const mapping =
      mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  auto* const memory = static_cast<std::byte*>(mapping);
  const Buffer target = buffer(kMiB);
  for (int round = 1; round <= 2; ++round) {  // the second finds it free again
    auto pinned = device_->pin(memory, kMiB, "the arena");
    ASSERT_TRUE(pinned.ok()) << pinned.status().message();
    EXPECT_EQ(pinned->data(), memory);
    EXPECT_TRUE(pinned->host_visible());
    EXPECT_FALSE(device_->pin(memory, kMiB, "the arena again").ok());
    *reinterpret_cast<float*>(memory) = static_cast<float>(round);
    stream_->copy_to_device(target.data(), memory, kMiB);
    EXPECT_EQ(first_of(target), static_cast<float>(round));
  }
  *reinterpret_cast<float*>(memory) = 9;  // still the caller's
  munmap(mapping, kMiB);
}

TEST_F(CudaDeviceTest, ReportsAFailedOperationOnceByNameAndSkipsWhatFollows) {
  const Buffer memory = buffer(64);
  fill(memory, 1, 1.0F);
  const float two = 2;
  stream_->gather_rows(impossible_gather(memory));
  EXPECT_TRUE(stream_->failed());
  stream_->copy_to_device(memory.data(), &two, sizeof two);
  const auto event = device_->create_event();
  stream_->record(*event);
  const Status status = stream_->synchronize();
  EXPECT_EQ(status.code(), StatusCode::fatal);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("gather_rows"), HasSubstr("stream test")));
  EXPECT_TRUE(event->passed());
  EXPECT_FALSE(stream_->failed());
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(first_of(memory), 1.0F);
}

TEST_F(CudaDeviceTest, ARecordingWithAFailedOperationIsNone) {
  const Buffer memory = buffer(64);
  ASSERT_TRUE(stream_->begin_recording().ok());
  stream_->gather_rows(impossible_gather(memory));
  const auto graph = stream_->end_recording();
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(graph.status().message(), HasSubstr("gather_rows"));
  EXPECT_TRUE(stream_->synchronize().ok());
}

TEST_F(CudaDeviceTest, LaunchesARecordingOfDependentOperationsInOrder) {
  constexpr std::int64_t kWidth = 4096;
  const Buffer rows = buffer(sizeof(std::int32_t));
  const std::int32_t zero = 0;
  stream_->copy_to_device(rows.data(), &zero, sizeof zero);
  const Buffer a = buffer(kWidth * sizeof(float));
  const Buffer b = buffer(kWidth * sizeof(float));
  const TensorView from(a.data(), DType::f32, {1, kWidth});
  const TensorView to(b.data(), DType::f32, {1, kWidth});
  const auto* const row = reinterpret_cast<const std::int32_t*>(rows.data());
  ASSERT_TRUE(stream_->begin_recording().ok());
  for (int i = 0; i < 50; ++i) {  // a to b, b to a: each must wait for the previous one
    stream_->gather_rows({from, row, to});
    stream_->gather_rows({to, row, from});
  }
  const auto graph = stream_->end_recording();
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (int launch = 1; launch <= 20; ++launch) {
    fill(a, kWidth, static_cast<float>(launch));
    fill(b, kWidth, -1.0F);
    stream_->launch(**graph);
    std::vector<float> got(kWidth);
    stream_->copy_to_host(got.data(), b.data(), kWidth * sizeof(float));
    ASSERT_TRUE(stream_->synchronize().ok());
    EXPECT_THAT(got, ::testing::Each(static_cast<float>(launch)));
  }
}

// Runs in its own process, where no kernel has been loaded yet: loading must not end the recording.
int record_what_never_ran() {
  const auto device = std::move(make_cuda_device({})).value();
  const auto stream = std::move(device->create_stream("first")).value();
  const Buffer memory = std::move(device->allocate(kMiB, "test")).value();
  const std::vector<std::uint16_t> ones(kMiB / 2, 0x3f80);  // bf16
  stream->copy_to_device(memory.data(), ones.data(), kMiB);
  const TensorView x(memory.data(), DType::bf16, {8, 64});
  const TensorView w(memory.data() + kMiB / 4, DType::bf16, {128, 64});
  const TensorView y(memory.data() + kMiB / 2, DType::f32, {8, 128});
  const TensorView z(memory.data() + kMiB / 4 * 3, DType::bf16, {8, 128});
  if (!stream->begin_recording()) return 1;
  stream->gemm({x, w, {}, y});
  stream->rms_norm({y, TensorView(y.data, DType::f32, {128}), 0.0F, z});
  auto graph = stream->end_recording();
  if (!graph) {
    std::fprintf(stderr, "%s\n", graph.status().message().c_str());
    return 2;
  }
  stream->launch(**graph);
  float first = 0;
  std::uint16_t normed = 0;
  stream->copy_to_host(&first, y.data, sizeof first);
  stream->copy_to_host(&normed, z.data, sizeof normed);
  if (!stream->synchronize()) return 3;
  std::fprintf(stderr, "64 ones make %g, normed %#x\n", static_cast<double>(first), normed);
  return 0;
}

TEST(CudaDeviceDeathTest, RecordsOperationsThatNeverRan) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(record_what_never_ran()), ::testing::ExitedWithCode(0),
              "64 ones make 64, normed 0x4280");
}

// A copy would wait for those in flight on any stream.
TEST_F(CudaDeviceTest, AnUploadDoesNotQueueBehindCopies) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;  // 5 ms, even over a PCIe 5 link
  const Buffer source = std::move(device_->allocate_pinned(kBytes, "test")).value();
  const Buffer target = buffer(kBytes);
  const Buffer small = buffer(64);
  const auto load = std::move(device_->create_stream("load")).value();
  const auto loaded = device_->create_event();
  stream_->upload(small.data(), source.data(), 64);  // loads the kernel
  ASSERT_TRUE(stream_->synchronize().ok());
  load->copy_to_device(target.data(), source.data(), kBytes);
  load->record(*loaded);
  stream_->upload(small.data(), source.data(), 64);
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_FALSE(loaded->passed());
  EXPECT_TRUE(load->synchronize().ok());
}

TEST_F(CudaDeviceTest, EnqueuesFromAnyThread) {
  const Buffer memory = buffer(64);
  std::thread([&] {
    const auto mine = std::move(device_->create_stream("mine")).value();
    const float seven = 7;
    mine->copy_to_device(memory.data(), &seven, sizeof seven);
    EXPECT_TRUE(mine->synchronize().ok());
  }).join();
  EXPECT_EQ(first_of(memory), 7.0F);
}

// Runs in its own process, because its context is lost for good.
int lose_the_context() {
  const auto device = std::move(make_cuda_device({})).value();
  const auto stream = std::move(device->create_stream("compute")).value();
  const auto other = std::move(device->create_stream("load")).value();
  const Buffer memory = std::move(device->allocate(4096, "test")).value();
  const std::int32_t id = 12345;  // outside a table of 8 rows, so the kernel traps
  stream->copy_to_device(memory.data(), &id, sizeof id);
  const TensorView table(memory.data() + 64, DType::f32, {8, 4});
  const TensorView out(memory.data() + 1024, DType::f32, {1, 4});
  stream->embed({table, reinterpret_cast<const std::int32_t*>(memory.data()), out});
  const auto event = device->create_event();
  stream->record(*event);
  event->synchronize();
  if (!event->passed() || !stream->failed()) return 1;
  for (int again = 0; again < 2; ++again) {  // the failure is permanent
    const Status status = stream->synchronize();
    if (status.code() != StatusCode::fatal) return 2;
    std::fprintf(stderr, "told: %s\n", status.message().c_str());
  }
  if (other->synchronize().code() != StatusCode::fatal) return 3;
  return device->allocate(64, "more").ok() ? 4 : 0;
}

TEST(CudaDeviceDeathTest, ALostContextIsToldByEveryCallAndBlocksNobody) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(lose_the_context()), ::testing::ExitedWithCode(0),
              "told: GPU stream compute failed, in 'embed'");
}

}  // namespace
}  // namespace tandem
