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

TEST(StepBatch, PaddedToTheSameRowsLiesAtTheSameAddresses) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {0, 7};
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  const StepInput announced = batch.padded_input(4, 16, 100);
  batch.add_sequence({tokens.data(), 1}, 4, pages, 4, {3, 8});
  batch.add_sample(0, {}, tokens, std::vector<TokenBias>{{3, 1.5F}});
  batch.pad(4, 16, 100);
  const StepInput first = batch.upload(*stream);
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(first.samples[0].history_len, 3);
  EXPECT_EQ(first.history[2], 3);
  EXPECT_EQ(first.biases[0].token, 3);
  batch.clear();
  for (int i = 0; i < 3; ++i) {
    batch.add_sequence({tokens.data(), 1}, 0, pages, 4, {});
    batch.add_sample(i, {}, {}, {});
  }
  batch.pad(4, 16, 100);
  const StepInput second = batch.upload(*stream);
  ASSERT_TRUE(stream->synchronize().ok());
  for (const StepInput& input : {first, second}) {
    EXPECT_EQ(input.ids, announced.ids);
    EXPECT_EQ(input.positions, announced.positions);
    EXPECT_EQ(input.slots, announced.slots);
    EXPECT_EQ(input.sequences, announced.sequences);
    EXPECT_EQ(input.page_ids, announced.page_ids);
    EXPECT_EQ(input.sample_rows, announced.sample_rows);
    EXPECT_EQ(input.lora_rows, announced.lora_rows);
    EXPECT_EQ(input.segments, announced.segments);
    for (const std::int32_t count : {input.num_rows, input.num_sequences, input.num_segments,
                                     input.num_lora_rows, input.num_logits}) {
      EXPECT_EQ(count, 4);
    }
    EXPECT_EQ(input.max_rank, 16);
    EXPECT_EQ(input.max_kv_len, 100);
  }
  EXPECT_EQ(first.num_samples, 1);
  EXPECT_EQ(second.num_samples, 3);
}

TEST(StepBatch, PadsWithRowsThatWriteAndReadNothing) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {5};
  const std::vector<std::int32_t> token = {9};
  batch.add_sequence(token, 2, pages, 4, {3, 8});
  batch.pad(3, 8, 100);
  const StepInput input = batch.upload(*stream);
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(input.slots[0], 5 * 4 + 2);
  EXPECT_EQ(input.segments[0].count, 1);
  for (std::int32_t i = 1; i < 3; ++i) {
    EXPECT_EQ(input.ids[i], 0);
    EXPECT_EQ(input.slots[i], -1);
    EXPECT_EQ(input.sequences[i].first_row, i);
    EXPECT_EQ(input.sequences[i].kv_len, 0);
    EXPECT_EQ(input.segments[i].count, 0);
  }
}

TEST(StepBatch, MayBeFilledAgainWhileTheDeviceStillReadsIt) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {0};
  std::vector<std::int32_t> seen(50, -1);
  for (std::int32_t i = 0; i < 50; ++i) {
    batch.clear();
    batch.add_sequence({&i, 1}, 0, pages, 4, {});
    const StepInput input = batch.upload(*stream);
    stream->copy_to_host(&seen[static_cast<std::size_t>(i)], input.ids, sizeof(std::int32_t));
  }
  ASSERT_TRUE(stream->synchronize().ok());
  for (std::int32_t i = 0; i < 50; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace tandem::test
