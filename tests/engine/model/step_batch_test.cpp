#include "engine/model/step_batch.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/test_device.h"

namespace tandem::test {
namespace {

TEST(StepBatch, GroupsRowsByAdapterAndLeavesTheBaseOut) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {3, 1};
  const std::vector<std::int32_t> two = {10, 11};
  const std::vector<std::int32_t> one = {12};
  batch.add_sequence(two, 3, pages, 4, {5, 16});
  batch.add_sequence(one, 0, pages, 4, {});
  batch.add_sequence(one, 0, pages, 4, {2, 64});
  EXPECT_EQ(batch.add_sequence(one, 7, pages, 4, {5, 16}), 4);
  const StepInput input = batch.upload(*stream);
  ASSERT_TRUE(stream->synchronize().ok());
  ASSERT_EQ(input.num_segments, 2);
  EXPECT_EQ(input.segments[0].slot, 2);
  EXPECT_EQ(input.segments[0].count, 1);
  EXPECT_EQ(input.segments[1].slot, 5);
  EXPECT_EQ(input.segments[1].count, 3);
  EXPECT_EQ(std::vector<std::int32_t>(input.lora_rows, input.lora_rows + 4),
            (std::vector<std::int32_t>{3, 0, 1, 4}));
  EXPECT_EQ(input.max_rank, 64);
  EXPECT_EQ(input.slots[0], 3 * 4 + 3);
  EXPECT_EQ(input.slots[1], 1 * 4 + 0);
  EXPECT_EQ(input.positions[1], 4);
  EXPECT_EQ(input.max_rows, 2);
  EXPECT_EQ(input.max_kv_len, 8);
}

TEST(StepBatch, KeepsItsAddressesFromStepToStep) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {0};
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  batch.add_sequence(tokens, 0, pages, 4, {});
  const StepInput first = batch.upload(*stream);
  ASSERT_TRUE(stream->synchronize().ok());
  batch.clear();
  batch.add_sequence({tokens.data(), 1}, 0, pages, 4, {0, 8});
  batch.add_sample(0, {}, tokens, std::vector<TokenBias>{{3, 1.5F}});
  const StepInput second = batch.upload(*stream);
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(first.ids, second.ids);
  EXPECT_EQ(first.history, second.history);
  EXPECT_EQ(first.biases, second.biases);
  EXPECT_EQ(second.samples[0].history_len, 3);
  EXPECT_EQ(second.history[2], 3);
  EXPECT_EQ(second.biases[0].token, 3);
}

}  // namespace
}  // namespace tandem::test
