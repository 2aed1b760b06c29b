#include "tools/bench/measure/bench_executor.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/host/host_device.h"
#include "tests/support/small_model.h"

namespace tandem {
namespace {

constexpr std::int32_t kBatch = 3;
constexpr std::int32_t kPrompt = 16;

std::unique_ptr<ExecutorBench> make_bench(Device& device, bool straight) {
  ExecutorBenchOptions options;
  options.batch = kBatch;
  options.context = 40;  // more than one piece
  options.prefill_tokens = kPrompt;
  options.sets = {{"rank 8 qkv", 8, qkv_modules(), kBatch}};
  options.straight = straight;
  Device* const devices[] = {&device};
  auto bench = ExecutorBench::create(devices, test::small_model(2), DType::f32, options, {});
  EXPECT_TRUE(bench) << bench.status().message();
  return bench ? std::move(bench).value() : nullptr;
}

TEST(ExecutorBench, StraightComputesWhatAnExecutorDoes) {
  const auto device = std::move(make_host_device({})).value();
  const auto straight = make_bench(*device, true);
  const auto pipelined = make_bench(*device, false);
  ASSERT_TRUE(straight != nullptr && pipelined != nullptr);
  for (const int set : {ExecutorBench::kNoAdapters, 0}) {
    const auto sampled = pipelined->sampled(kBatch, set);
    const auto logits = straight->decode_logits(0, kBatch, set, true);
    ASSERT_TRUE(sampled && logits);
    ASSERT_EQ(sampled->size(), std::size_t{kBatch});
    const auto vocab = static_cast<std::ptrdiff_t>(logits->size() / kBatch);
    for (std::int32_t i = 0; i < kBatch; ++i) {
      const auto row = logits->begin() + i * vocab;
      EXPECT_EQ((*sampled)[static_cast<std::size_t>(i)].token,
                std::max_element(row, row + vocab) - row);
    }
    for (ExecutorBench* bench : {straight.get(), pipelined.get()}) {
      EXPECT_GT(bench->decode(kBatch, set).value(), 0);
      EXPECT_GT(bench->prefill(kPrompt).value(), 0);
    }
    EXPECT_EQ(straight->decode_bytes(kBatch, set), pipelined->decode_bytes(kBatch, set));
  }
  EXPECT_EQ(straight->device_bytes(), pipelined->device_bytes());
}

TEST(ExecutorBench, TheLastTokensLogitsAreTheSameInOneStepAndInTwo) {
  const auto device = std::move(make_host_device({})).value();
  const auto bench = make_bench(*device, true);
  ASSERT_NE(bench, nullptr);
  const auto at_once = bench->prefill_logits(0, kPrompt);
  ASSERT_TRUE(bench->prefill_logits(0, kPrompt - 1));
  const auto last = bench->prefill_logits(kPrompt - 1, 1);
  ASSERT_TRUE(at_once && last);
  ASSERT_EQ(at_once->size(), last->size());
  for (std::size_t i = 0; i < last->size(); ++i) EXPECT_NEAR((*at_once)[i], (*last)[i], 1e-3);
}

}  // namespace
}  // namespace tandem
