// The parts of NCCL's use that need no GPU.
#include "gpu/cuda/nccl/nccl.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <vector>

#include "gpu/cuda/collectives/wait_watch.h"
#include "gpu/cuda/nccl/nccl_ranks.h"

namespace tandem::cuda {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(Nccl, NamesTheLibraryThatIsMissingAndWhereItComesFrom) {
  const Status status = Nccl::load("libnccl-of-nobody.so.2").status();
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_THAT(status.message(), HasSubstr("libnccl-of-nobody.so.2"));
  EXPECT_THAT(status.message(), HasSubstr("install the package libnccl2"));
  EXPECT_THAT(status.message(), HasSubstr("LD_LIBRARY_PATH"));
}

TEST(Nccl, IsNotAnyLibrary) {
  const Status status = Nccl::load("libm.so.6").status();
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_THAT(status.message(), HasSubstr("ncclGetVersion"));
}

TEST(Nccl, LeavesMulticastAlone) {
  ASSERT_EQ(::unsetenv("NCCL_NVLS_ENABLE"), 0);
  ASSERT_EQ(::unsetenv("NCCL_RUNTIME_CONNECT"), 0);
  (void)Nccl::load("libnccl-of-nobody.so.2");
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  EXPECT_STREQ(std::getenv("NCCL_RUNTIME_CONNECT"), "0");
}

TEST(Nccl, KeepsWhatAUserHasSet) {
  ASSERT_EQ(::setenv("NCCL_NVLS_ENABLE", "1", 1), 0);
  (void)Nccl::load("libnccl-of-nobody.so.2");
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "1");
  ASSERT_EQ(::unsetenv("NCCL_NVLS_ENABLE"), 0);
}

TEST(Nccl, TellsItsVersion) {
  const Result<const Nccl*> nccl = Nccl::get();
  if (!nccl) GTEST_SKIP() << nccl.status().message();
  EXPECT_THAT((*nccl)->version(), ::testing::MatchesRegex("2\\.[0-9]+\\.[0-9]+"));
}

TEST(Nccl, NeedsAGpuForEachRank) {
  if (!Nccl::get()) GTEST_SKIP() << Nccl::get().status().message();
  const std::vector<int> gpus = {0, 1, 0};
  const Status status = NcclRanks::create(gpus).status();
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_THAT(status.message(), HasSubstr("GPU 0 is to be several"));
}

TEST(Nccl, SaysWhatNcclSaysWhereThereAreNoGpus) {
  if (!Nccl::get()) GTEST_SKIP() << Nccl::get().status().message();
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) GTEST_SKIP() << "there are some";
  const std::vector<int> gpus = {0, 1};
  const Status status = NcclRanks::create(gpus).status();
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_THAT(status.message(), HasSubstr("connecting the GPUs failed"));
}

class WaitWatchTest : public ::testing::Test {
 protected:
  std::optional<std::int32_t> late_at(seconds when) {
    return watch_.late(marks_, WaitWatch::TimePoint() + when);
  }

  WaitWatch watch_{seconds(20)};
  std::array<std::uint32_t, 3> marks_{};
};

TEST_F(WaitWatchTest, FindsNobodyLateWhoIsInNoOperation) {
  EXPECT_EQ(late_at(seconds(1)), std::nullopt);
  marks_ = {2, 4, 2};
  EXPECT_EQ(late_at(seconds(100)), std::nullopt);
  EXPECT_EQ(late_at(seconds(200)), std::nullopt);
}

TEST_F(WaitWatchTest, FindsWhoHasBeenInOneOperationForTooLong) {
  marks_ = {2, 5, 6};
  EXPECT_EQ(late_at(seconds(10)), std::nullopt);
  EXPECT_EQ(late_at(seconds(29)), std::nullopt);
  EXPECT_EQ(late_at(seconds(30)), 1);
}

TEST_F(WaitWatchTest, CountsAnewWithEveryOperation) {
  marks_ = {1, 1, 1};
  EXPECT_EQ(late_at(seconds(10)), std::nullopt);
  marks_ = {3, 3, 3};  // noticed at the next look, or the one after
  EXPECT_EQ(late_at(seconds(29)), std::nullopt);
  EXPECT_EQ(late_at(seconds(31)), std::nullopt);
  marks_ = {4, 3, 5};
  EXPECT_EQ(late_at(seconds(48)), std::nullopt);
  EXPECT_EQ(late_at(seconds(49)), 1);
}

}  // namespace
}  // namespace tandem::cuda
