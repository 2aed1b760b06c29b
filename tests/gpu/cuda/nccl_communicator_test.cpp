// Ranks on GPUs that sum through NCCL; needs a machine with two or more GPUs, and NCCL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "gpu/cuda/cuda_device.h"
#include "gpu/cuda/nccl/nccl.h"
#include "tests/gpu/cuda/communicator_group.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

// The sizes for which the machine has enough GPUs.
std::vector<std::int32_t> group_sizes() {
  std::vector<std::int32_t> sizes = {2, 3, 4, 8};
  std::erase_if(sizes, [gpus = list_cuda_gpus().size()](std::int32_t size) {
    return static_cast<std::size_t>(size) > gpus;
  });
  return sizes;
}

// The sum of two numbers does not depend on their order.
Agreement agreement_of(std::int32_t ranks) {
  return ranks == 2 ? Agreement::to_the_bit : Agreement::rounded;
}

class NcclCommunicatorTest : public CommunicatorTest {
 protected:
  void SetUp() override {
    if (list_cuda_gpus().size() < 2) GTEST_SKIP() << "one GPU";
    const auto nccl = cuda::Nccl::get();
    if (!nccl) GTEST_SKIP() << nccl.status().message();
  }

  static GroupOptions through_nccl() {
    GroupOptions options;
    options.collectives = Collectives::nccl;
    return options;
  }
};

TEST_F(NcclCommunicatorTest, AddsUpTheRanksPartsAsHostDevicesDo) {
  for (const std::int32_t size : group_sizes()) {
    Group gpus(true, size, through_nccl());
    Group hosts(false, size);
    for (int round = 0; round < 24; ++round) {
      expect_as_on_the_host(gpus, hosts, pick_shape(30), 1, 1, false, agreement_of(size));
    }
    expect_as_on_the_host(gpus, hosts, {500, 1024, true, DType::bf16, true}, 1, 1, false,
                          agreement_of(size));
  }
}

TEST_F(NcclCommunicatorTest, AddsUpInRecordingsThatAreLaunchedAgainAndAgain) {
  for (const std::int32_t size : group_sizes()) {
    Group gpus(true, size, through_nccl());
    Group hosts(false, size);
    for (int round = 0; round < 6; ++round) {
      Shape shape = pick_shape(20);
      shape.width = std::min<std::int64_t>(shape.width, 2048);
      expect_as_on_the_host(gpus, hosts, shape, /*steps=*/4, /*launches=*/20, round % 2 == 0,
                            agreement_of(size));
    }
  }
}

// As if no GPU could map another's memory: NCCL is then chosen without being asked for.
TEST_F(NcclCommunicatorTest, AddsUpForGpusThatCannotReachEachOthersMemory) {
  GroupOptions apart;
  apart.peers_apart = true;
  Group gpus(true, 2, apart);
  Group hosts(false, 2);
  expect_as_on_the_host(gpus, hosts, {7, 4096, true, DType::bf16, true}, 2, 3, false);
  expect_as_on_the_host(gpus, hosts, {7, 4096, true, DType::bf16, true}, 2, 3, true);
  expect_gathered(gpus, {64, 63}, 5, false);
}

// Small sums use the GPUs' memory and large ones use NCCL, alternating on one stream.
TEST_F(NcclCommunicatorTest, TakesNcclForLargeSumsAlone) {
  GroupOptions from;
  from.nccl_from_bytes = 64 << 10;
  Group gpus(true, 2, from);
  Group hosts(false, 2);
  for (int round = 0; round < 12; ++round) {
    for (const std::int64_t rows : {1, 100}) {
      expect_as_on_the_host(gpus, hosts, {rows, 1024, true, DType::bf16, true}, 2, 3,
                            round % 2 == 1);
    }
  }
}

TEST_F(NcclCommunicatorTest, GathersPartsOfWhichTheLastIsNarrower) {
  for (const bool recorded : {false, true}) {
    for (const std::int32_t size : group_sizes()) {
      Group group(true, size, through_nccl());
      for (const std::int64_t width : {64, 97, 9999, 32000}) {
        const std::int64_t share = (width + size - 1) / size;
        std::vector<std::int64_t> widths(static_cast<std::size_t>(size), share);
        widths.back() = width - share * (size - 1);
        for (const std::int64_t rows : {1, 5, 33}) expect_gathered(group, widths, rows, recorded);
      }
    }
  }
}

// More rows than are gathered at once.
TEST_F(NcclCommunicatorTest, GathersManyRowsPieceByPiece) {
  Group group(true, 2, through_nccl());
  expect_gathered(group, {60000, 59999}, 64, false);
  expect_gathered(group, {60000, 59999}, 64, true);
}

TEST_F(NcclCommunicatorTest, RefusesPartsThatNobodyCanKnowTheWidthOf) {
  Group group(true, 2, through_nccl());
  const TensorView part = group.at(0, DType::f32, 1, 8);
  group.move_on(1024);
  group.streams[0]->all_gather({group.ends[0].get(), part, group.at(0, DType::f32, 1, 12)});
  EXPECT_THAT(group.streams[0]->synchronize().message(),
              HasSubstr("rank 0 of 2 has 8 of 12 columns"));
}

TEST_F(NcclCommunicatorTest, ARankThatLeavesEndsTheGroupForGood) {
  for (const bool recorded : {false, true}) {
    Group group(true, 2, through_nccl());
    Stream& stream = *group.streams[0];
    std::unique_ptr<Graph> graph;
    if (recorded) {
      ASSERT_TRUE(stream.begin_recording().ok());
      stream.all_reduce(reduce_one(group, 0));
      graph = std::move(stream.end_recording()).value();
      stream.launch(*graph);
    } else {
      stream.all_reduce(reduce_one(group, 0));
    }
    group.ends[1]->leave("its step");
    const Status status = stream.synchronize();
    EXPECT_EQ(status.code(), StatusCode::fatal);
    EXPECT_THAT(status.message(), HasSubstr("rank 1 failed before its step"));
    for (const auto& end : group.ends) end->reset();
    // Fails at once, even while NCCL waits for a recording to be destroyed.
    stream.all_reduce(reduce_one(group, 0));
    EXPECT_EQ(stream.synchronize().code(), StatusCode::fatal);
    if (!recorded) continue;
    stream.launch(*graph);
    EXPECT_EQ(stream.synchronize().code(), StatusCode::fatal);
  }
}

// Takes as long as the group's patience.
TEST_F(NcclCommunicatorTest, ARankThatNeverComesIsNotWaitedForForEver) {
  Group group(true, 2, through_nccl());
  group.streams[0]->all_reduce(reduce_one(group, 0));
  const Status status = group.streams[0]->synchronize();
  EXPECT_EQ(status.code(), StatusCode::fatal);
  EXPECT_THAT(status.message(), HasSubstr("rank 0 waited in vain"));
}

TEST_F(NcclCommunicatorTest, RefusesTwoRanksOnOneGpu) {
  const auto gpu = make_rank(true, 0, through_nccl());
  const std::vector<Device*> both = {gpu.get(), gpu.get()};
  EXPECT_THAT(gpu->connect(both).status().message(), HasSubstr("GPU 0 is to be several"));
}

}  // namespace
}  // namespace tandem
