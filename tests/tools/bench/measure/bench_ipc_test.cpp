#include "tools/bench/measure/bench_ipc.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

IpcOptions small() {
  return {.receivers = 3, .sent_bytes = 1000, .answered_bytes = 3000, .rounds = 5};
}

TEST(BenchIpc, CountsEachByteOfASocketIntoAndOutOfTheKernel) {
  const auto result = measure_ipc(Ipc::socket, small());
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->copied_bytes, 3U * 2 * (1000 + 3000));
  EXPECT_GE(result->calls, 3U * 4);
  EXPECT_GT(result->median_s, 0);
}

TEST(BenchIpc, CopiesNothingThroughSharedMemory) {
  const auto result = measure_ipc(Ipc::shared_memory, small());
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->copied_bytes, 0U);
  EXPECT_EQ(result->calls, 0U);
}

TEST(BenchIpc, RefusesToSendNothing) {
  IpcOptions options = small();
  options.sent_bytes = 0;
  EXPECT_FALSE(measure_ipc(Ipc::socket, options).ok());
}

}  // namespace
}  // namespace tandem
