// Ranks on GPUs, whose kernels meet in each other's memory, compared with ranks on host devices.
// With fewer GPUs than ranks, several share a GPU, and their kernels meet all the same.
#include "gpu/cuda/collectives/cuda_communicator.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "gpu/cuda/collectives/collectives.h"
#include "tests/gpu/cuda/communicator_group.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

using CudaCommunicatorTest = CommunicatorTest;

TEST_F(CudaCommunicatorTest, AddsUpTheRanksPartsAsHostDevicesDo) {
  for (const std::int32_t size : {1, 2, 3, 4}) {
    Group gpus(true, size);
    Group hosts(false, size);
    for (int round = 0; round < 24; ++round) {
      const Shape shape = pick_shape(30);
      expect_as_on_the_host(gpus, hosts, shape, /*steps=*/1, /*launches=*/1, false);
    }
  }
}

// More rows than blocks, fewer rows, columns that do not divide evenly; each too large for one
// shot.
TEST_F(CudaCommunicatorTest, AddsUpPromptsInTwoShots) {
  for (const std::int32_t size : {3, 4}) {
    Group gpus(true, size);
    Group hosts(false, size);
    for (const Shape& shape :
         {Shape{500, 1024, true, DType::bf16, true}, Shape{401, 1001, true, DType::f32, true},
          Shape{65, 8192, true, DType::f16, false}, Shape{40, 8196, true, DType::bf16, true},
          Shape{10, 40'002, true, DType::f32, true}, Shape{3, 200'000, false, DType::f32, true}}) {
      expect_as_on_the_host(gpus, hosts, shape, 1, 1, false);
    }
  }
}

// Every launch of a recording has its own meetings, and operations of several sizes follow each
// other: buffers are reused while the slowest rank may still be behind.
TEST_F(CudaCommunicatorTest, MeetsInRecordingsThatAreLaunchedAgainAndAgain) {
  for (const std::int32_t size : {2, 4}) {
    Group gpus(true, size);
    Group hosts(false, size);
    for (int round = 0; round < 6; ++round) {
      Shape shape = pick_shape(20);
      shape.width = std::min<std::int64_t>(shape.width, 2048);
      expect_as_on_the_host(gpus, hosts, shape, /*steps=*/4, /*launches=*/20, round % 2 == 0);
    }
  }
}

TEST_F(CudaCommunicatorTest, GathersPartsOfDifferentWidths) {
  for (const std::vector<std::int64_t>& widths :
       {std::vector<std::int64_t>{7, 7, 3}, {16000, 16000}, {128, 64, 4, 1}, {5000, 4999}}) {
    Group group(true, static_cast<std::int32_t>(widths.size()));
    for (const std::int64_t rows : {1, 5, 33}) {
      expect_gathered(group, widths, rows, /*recorded=*/false);
    }
  }
}

TEST_F(CudaCommunicatorTest, ARankThatLeavesLetsGoOfThoseThatWaitAndAllMeetAgainAfterwards) {
  Group group(true, 2);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i <= round; ++i) group.streams[0]->all_reduce(reduce_one(group, 0));
    group.ends[1]->leave("its step");
    const Status status = group.streams[0]->synchronize();
    EXPECT_EQ(status.code(), StatusCode::cancelled);
    EXPECT_THAT(status.message(), HasSubstr("rank 1 failed before its step"));
    // Operations behind it fail too, and report it again.
    group.streams[0]->all_reduce(reduce_one(group, 0));
    EXPECT_EQ(group.streams[0]->synchronize().code(), StatusCode::cancelled);
    for (const auto& end : group.ends) end->reset();

    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::vector<float> ones(8, static_cast<float>(rank + 1));
      group.put(rank, reduce_one(group, rank).part, ones.data());
      ASSERT_TRUE(group.streams[rank]->synchronize().ok());
    }
    for (std::size_t rank = 0; rank < 2; ++rank) {
      group.streams[rank]->all_reduce(reduce_one(group, rank));
    }
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::vector<std::byte> sum = group.get(rank, reduce_one(group, rank).residual);
      EXPECT_EQ(reinterpret_cast<const float*>(sum.data())[7], 3.0F);
    }
  }
}

TEST_F(CudaCommunicatorTest, AnOperationThatCannotBeEnqueuedFailsTheOthersAtOnce) {
  Group group(true, 2);
  group.streams[0]->all_reduce(reduce_one(group, 0));
  const TensorView impossible(group.memory[1].data(), DType::f32, {1, std::int64_t{1} << 34});
  group.streams[1]->gather_rows(
      {impossible, reinterpret_cast<const std::int32_t*>(group.memory[1].data()), impossible});
  group.streams[1]->all_reduce(reduce_one(group, 1));
  EXPECT_THAT(group.streams[1]->synchronize().message(), HasSubstr("gather_rows"));
  EXPECT_THAT(group.streams[0]->synchronize().message(), HasSubstr("rank 1 failed before"));
}

// Uses a shorter patience than a normal group.
TEST_F(CudaCommunicatorTest, ARankThatNeverComesIsNotWaitedForForEver) {
  const auto gpu = make_rank(true, 0);
  const std::vector<int> both = {0, 0};
  const auto group = std::move(cuda::CudaGroup::create(both, *gpu)).value();
  const Buffer memory = std::move(gpu->allocate(4096, "test")).value();
  AllReduceArgs args;
  args.part = TensorView(memory.data(), DType::f32, {1, 8});
  args.residual = TensorView(memory.data() + 1024, DType::f32, {1, 8});
  cuda::GroupEnd end = group->end(0);
  end.patience_ns = 1'000'000;
  ASSERT_TRUE(cuda::launch_all_reduce(args, end, cudaStreamPerThread).ok());
  ASSERT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
  EXPECT_TRUE(group->has_failed(0));
  EXPECT_FALSE(group->has_failed(1));
  const Status status = group->take_failure(0);
  EXPECT_EQ(status.code(), StatusCode::cancelled);
  EXPECT_THAT(status.message(), HasSubstr("group of 2 GPUs: rank 0 waited in vain"));
  EXPECT_TRUE(group->take_failure(0).ok()) << "told twice";
}

TEST_F(CudaCommunicatorTest, SaysWhichGpusCannotReachEachOther) {
  GroupOptions apart;
  apart.collectives = Collectives::own;
  apart.peers_apart = true;
  const auto one = make_rank(true, 0, apart);
  const auto other = make_rank(true, 1, apart);
  const std::vector<Device*> both = {one.get(), other.get()};
  const Status status = one->connect(both).status();
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_THAT(status.message(), HasSubstr("GPU 0 cannot reach the memory of GPU"));
  EXPECT_THAT(status.message(), HasSubstr("collectives auto or nccl"));
}

TEST_F(CudaCommunicatorTest, RefusesGroupsThatAreNone) {
  const auto gpu = make_rank(true, 0);
  const auto host = make_rank(false, 0);
  const std::vector<Device*> many(9, gpu.get());
  EXPECT_THAT(gpu->connect(many).status().message(), HasSubstr("1 to 8 devices, not 9"));
  const std::vector<Device*> mixed = {gpu.get(), host.get()};
  EXPECT_THAT(gpu->connect(mixed).status().message(), HasSubstr("cannot be one group"));
}

}  // namespace
}  // namespace tandem
