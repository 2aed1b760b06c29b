#include "engine/model/step/step_batch.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/test_device.h"

namespace tandem::test {
namespace {

// Reads device memory after the stream has finished.
template <typename T>
std::vector<T> read(Stream& stream, const T* from, std::int32_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  stream.copy_to_host(values.data(), from, values.size() * sizeof(T));
  EXPECT_TRUE(stream.synchronize().ok());
  return values;
}

const std::vector<ColdSlot> kTwoCold = {{SlotId(7), 1, 40, 9, 0b110}, {SlotId(2), 0, 0, 8, 0b1}};

StepBounds decode_bounds(std::int32_t rows, std::int32_t max_rank, std::int32_t max_kv_len) {
  return {rows, max_rank, max_kv_len};
}

TEST(StepBatch, GroupsRowsByAdapterAndLeavesTheBaseOut) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {PageId(3), PageId(1)};
  const std::vector<std::int32_t> two = {10, 11};
  const std::vector<std::int32_t> one = {12};
  batch.add_sequence(two, 3, pages, 4, {SlotId(5), 16});
  batch.add_sequence(one, 0, pages, 4, {});
  batch.add_sequence(one, 0, pages, 4, {SlotId(2), 64});
  EXPECT_EQ(batch.add_sequence(one, 7, pages, 4, {SlotId(5), 16}), 4);
  const StepInput input = batch.upload(*stream);
  ASSERT_EQ(input.num_segments, 2);
  const std::vector<LoraSegment> segments = read(*stream, input.segments, 2);
  EXPECT_EQ(segments[0].slot, 2);
  EXPECT_EQ(segments[0].count, 1);
  EXPECT_EQ(segments[1].slot, 5);
  EXPECT_EQ(segments[1].count, 3);
  EXPECT_EQ(read(*stream, input.lora_rows, 4), (std::vector<std::int32_t>{3, 0, 1, 4}));
  EXPECT_EQ(input.max_rank, 64);
  EXPECT_EQ(input.max_count, 3);
  EXPECT_EQ(read(*stream, input.slots, 2), (std::vector<std::int32_t>{3 * 4 + 3, 1 * 4 + 0}));
  EXPECT_EQ(read(*stream, input.positions, 2)[1], 4);
  EXPECT_EQ(input.max_rows, 2);
  EXPECT_EQ(input.max_kv_len, 8);
}

// The rows that get logits are grouped as if they were the step's only rows.
TEST(StepBatch, GroupsTheRowsThatGetLogitsByAdapter) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {PageId(3), PageId(1)};
  const std::vector<std::int32_t> three = {10, 11, 12};
  for (const AdapterSlot& slot :
       {AdapterSlot{SlotId(5), 16}, {}, {SlotId(2), 64}, {SlotId(9), 32}, {SlotId(5), 16}}) {
    batch.add_sequence(three, 0, pages, 4, slot);
  }
  for (const std::int32_t row : {14, 4, 8, 2, 8}) batch.add_sample(row, {}, {}, {});
  const StepInput input = batch.upload(*stream);
  EXPECT_EQ(input.num_segments, 3);
  ASSERT_EQ(input.num_sampled_segments, 2) << "one has no such row";
  const std::vector<LoraSegment> segments = read(*stream, input.sampled_segments, 2);
  EXPECT_EQ(segments[0].slot, 2);
  EXPECT_EQ(segments[0].first, 0);
  EXPECT_EQ(segments[0].count, 2);
  EXPECT_EQ(segments[1].slot, 5);
  EXPECT_EQ(segments[1].first, 2);
  EXPECT_EQ(segments[1].count, 2);
  ASSERT_EQ(input.num_sampled_lora_rows, 4);
  EXPECT_EQ(read(*stream, input.sampled_lora_rows, 4), (std::vector<std::int32_t>{2, 4, 0, 3}));
  EXPECT_EQ(input.max_sampled_count, 2);
  batch.clear();
  batch.add_sequence(three, 0, pages, 4, {});
  batch.add_sample(2, {}, {}, {});
  EXPECT_EQ(batch.upload(*stream).num_sampled_segments, 0);
  ASSERT_TRUE(stream->synchronize().ok());
}

TEST(StepBatch, TellsTheSlotOfEachRowIfAdaptersHaveWeightsOfNorms) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {PageId(3), PageId(1)};
  SiteRanks qkv = {};
  qkv[static_cast<std::size_t>(Site::qkv)] = 4;
  SiteRanks norms = qkv;
  norms[static_cast<std::size_t>(Site::final_norm)] = 1;
  const std::vector<std::int32_t> two = {10, 11};
  batch.add_sequence(two, 0, pages, 4, {SlotId(5), 4, qkv});
  EXPECT_EQ(batch.upload(*stream).row_slots, nullptr);
  batch.clear();
  batch.add_sequence(two, 0, pages, 4, {SlotId(5), 4, qkv});
  batch.add_sequence(two, 0, pages, 4, {});
  batch.add_sequence(two, 0, pages, 4, {SlotId(2), 4, norms}, 0, 1);  // acts on the second token
  for (const std::int32_t row : {5, 3, 1}) batch.add_sample(row, {}, {}, {});
  const StepInput input = batch.upload(*stream);
  EXPECT_EQ(read(*stream, input.row_slots, 6), (std::vector<std::int32_t>{5, 5, -1, -1, -1, 2}));
  EXPECT_EQ(read(*stream, input.sampled_slots, 3), (std::vector<std::int32_t>{2, -1, 5}));
  // Padding has none.
  batch.clear();
  batch.add_sequence(std::span(two).first(1), 0, pages, 4, {SlotId(2), 4, norms});
  batch.add_sample(0, {}, {}, {});
  batch.pad(decode_bounds(4, 4, 16));
  const StepInput padded = batch.upload(*stream);
  EXPECT_EQ(read(*stream, padded.row_slots, 4), (std::vector<std::int32_t>{2, -1, -1, -1}));
  EXPECT_EQ(read(*stream, padded.sampled_slots, 4), (std::vector<std::int32_t>{2, -1, -1, -1}));
  const StepInput recorded = batch.padded_input(decode_bounds(4, 4, 16));
  EXPECT_EQ(recorded.row_slots, padded.row_slots);
  EXPECT_EQ(recorded.sampled_slots, padded.sampled_slots);
}

TEST(StepBatch, TellsColdGroupsTheirSegments) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16, 2}).value();
  const std::vector<PageId> pages = {PageId(3), PageId(1)};
  const std::vector<std::int32_t> two = {10, 11};
  batch.add_sequence(two, 0, pages, 4, {SlotId(5), 16});
  batch.add_sequence(two, 0, pages, 4, {SlotId(2), 64});
  batch.add_sequence(two, 0, pages, 4, {SlotId(7), 8});
  batch.set_cold(kTwoCold, std::vector<OfferDescriptor>{{11, 0b01, 0b10, {}}, {}});
  const StepInput input = batch.upload(*stream);
  ASSERT_EQ(input.num_groups, 2);
  ASSERT_NE(input.live, nullptr);
  const std::vector<ColdGroup> groups = read(*stream, input.groups, 2);
  EXPECT_EQ(groups[0].segment, 2);
  EXPECT_EQ(groups[0].mailbox, 1);
  EXPECT_EQ(groups[0].first_row, 40);
  EXPECT_EQ(groups[0].generation, 9U);
  EXPECT_EQ(groups[0].workers, 0b110U);
  EXPECT_EQ(groups[1].segment, 0);
  EXPECT_EQ(read(*stream, input.timed_out, 2), (std::vector<std::uint32_t>{0, 0}));
  const std::vector<OfferDescriptor> descriptors = read(*stream, input.descriptors, 2);
  EXPECT_EQ(descriptors[0].sequence, 11U);
  EXPECT_EQ(descriptors[0].xa_groups, 0b10U);
  batch.clear();
  batch.add_sequence(two, 0, pages, 4, {SlotId(5), 16});
  EXPECT_EQ(batch.upload(*stream).num_groups, 0);
  ASSERT_TRUE(stream->synchronize().ok());
}

TEST(StepBatch, CountsTheRanksOfEachAdapterOnce) {
  auto device = make_test_device();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {PageId(3)};
  const std::vector<std::int32_t> one = {12};
  batch.add_sequence(one, 0, pages, 4, {SlotId(5), 16, {48, 16, 32, 16}});
  batch.add_sequence(one, 0, pages, 4, {});
  batch.add_sequence(one, 0, pages, 4, {SlotId(2), 8, {24, 0, 0, 0}});
  batch.add_sequence(one, 1, pages, 4, {SlotId(5), 16, {48, 16, 32, 16}});
  EXPECT_EQ(batch.site_ranks(), (SiteRanks{72, 16, 32, 16}));
  batch.halve({Site::qkv});
  auto stream = device->create_stream("test").value();
  EXPECT_EQ(batch.upload(*stream).halved, SiteSet{Site::qkv});
  batch.clear();
  EXPECT_EQ(batch.site_ranks(), SiteRanks{});
  EXPECT_EQ(batch.upload(*stream).halved, SiteSet());
  ASSERT_TRUE(stream->synchronize().ok());
}

TEST(StepBatch, TellsAtWhichSitesItsAdaptersHaveModules) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {PageId(3)};
  const std::vector<std::int32_t> one = {12};
  EXPECT_EQ(batch.adapted(), SiteSet());
  batch.add_sequence(one, 0, pages, 4, {});
  batch.add_sequence(one, 0, pages, 4, {SlotId(2), 8, {24, 0, 0, 0}});
  EXPECT_EQ(batch.upload(*stream).adapted, SiteSet{Site::qkv});
  batch.add_sequence(one, 0, pages, 4, {SlotId(5), 16, {0, 0, 0, 16}});
  EXPECT_EQ(batch.upload(*stream).adapted, (SiteSet{Site::qkv, Site::down}));
  batch.pad(decode_bounds(4, 16, 100));
  EXPECT_EQ(batch.upload(*stream).adapted, SiteSet::all());
  batch.clear();
  batch.add_sequence(one, 0, pages, 4, {SlotId(2), 8});
  EXPECT_EQ(batch.upload(*stream).adapted, SiteSet::all()) << "nobody said where";
  ASSERT_TRUE(stream->synchronize().ok());
}

TEST(StepBatch, TellsWhetherAnAdapterHasBiases) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {PageId(3)};
  const std::vector<std::int32_t> one = {12};
  batch.add_sequence(one, 0, pages, 4, {SlotId(2), 8, {24, 0, 0, 0}});
  EXPECT_FALSE(batch.upload(*stream).has_bias);
  batch.add_sequence(one, 0, pages, 4, {SlotId(5), 8, {24, 0, 0, 0}, true});
  EXPECT_TRUE(batch.upload(*stream).has_bias);
  StepBounds bounds = decode_bounds(4, 8, 100);
  bounds.has_bias = true;
  batch.pad(bounds);
  EXPECT_TRUE(batch.upload(*stream).has_bias);
  batch.clear();
  EXPECT_FALSE(batch.has_bias());
  bounds.has_bias = false;
  batch.add_sequence(one, 0, pages, 4, {SlotId(2), 8, {24, 0, 0, 0}});
  batch.pad(bounds);
  EXPECT_FALSE(batch.upload(*stream).has_bias) << "nothing in this recording adds them";
  ASSERT_TRUE(stream->synchronize().ok());
}

TEST(StepBatch, PaddedToTheSameRowsLiesAtTheSameAddresses) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {PageId(0), PageId(7)};
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  const StepInput announced = batch.padded_input(decode_bounds(4, 16, 100));
  batch.add_sequence({tokens.data(), 1}, 4, pages, 4, {SlotId(3), 8});
  batch.add_sample(0, {}, tokens, std::vector<TokenBias>{{3, 1.5F}});
  batch.pad(decode_bounds(4, 16, 100));
  const StepInput first = batch.upload(*stream);
  EXPECT_EQ(read(*stream, first.samples, 1)[0].history_len, 3);
  EXPECT_EQ(read(*stream, first.history, 3)[2], 3);
  EXPECT_EQ(read(*stream, first.biases, 1)[0].token, 3);
  batch.clear();
  for (int i = 0; i < 3; ++i) {
    batch.add_sequence({tokens.data(), 1}, 0, pages, 4, {});
    batch.add_sample(i, {}, {}, {});
  }
  batch.pad(decode_bounds(4, 16, 100));
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
                                     input.num_lora_rows, input.num_logits, input.max_count}) {
      EXPECT_EQ(count, 4);
    }
    EXPECT_EQ(input.max_rank, 16);
    EXPECT_EQ(input.max_kv_len, 100);
  }
  EXPECT_EQ(first.num_samples, 1);
  EXPECT_EQ(second.num_samples, 3);
}

// The tables of other groups lie at fixed addresses, too.
TEST(StepBatch, HasSlotsAndPageIdsForEachGroupOfLayers) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16, 0, 3}).value();
  const std::vector<PageId> first = {PageId(3), PageId(1), PageId(9),
                                     PageId(5), PageId(9), PageId(6)};
  const std::vector<PageId> second = {PageId(0), PageId(2), PageId(4)};
  const std::vector<std::int32_t> token = {12};
  const StepInput announced = batch.padded_input(decode_bounds(4, 0, 100));
  for (const bool padded : {false, true}) {
    batch.clear();
    batch.add_sequence(token, 6, first, 4, {});
    batch.add_sequence(token, 3, second, 4, {});
    if (padded) batch.pad(decode_bounds(4, 0, 100));
    const StepInput input = batch.upload(*stream);
    const std::vector<std::vector<std::int32_t>> slots = {{6, 3}, {22, 11}, {26, 19}};
    const std::vector<std::vector<std::int32_t>> ids = {{3, 1, 0}, {9, 5, 2}, {9, 6, 4}};
    for (std::int32_t group = 0; group < 3; ++group) {
      EXPECT_EQ(read(*stream, input.slots_of(group), 2), slots[static_cast<std::size_t>(group)]);
      EXPECT_EQ(read(*stream, input.page_ids_of(group), 3), ids[static_cast<std::size_t>(group)]);
      if (!padded) continue;
      EXPECT_EQ(input.slots_of(group), announced.slots_of(group));
      EXPECT_EQ(input.page_ids_of(group), announced.page_ids_of(group));
    }
  }
}

TEST(StepBatch, PadsWithRowsThatWriteAndReadNothing) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {PageId(5)};
  const std::vector<std::int32_t> token = {9};
  batch.add_sequence(token, 2, pages, 4, {SlotId(3), 8});
  batch.pad(decode_bounds(3, 8, 100));
  const StepInput input = batch.upload(*stream);
  EXPECT_EQ(read(*stream, input.ids, 3), (std::vector<std::int32_t>{9, 0, 0}));
  EXPECT_EQ(read(*stream, input.slots, 3), (std::vector<std::int32_t>{5 * 4 + 2, -1, -1}));
  const std::vector<LoraSegment> segments = read(*stream, input.segments, 3);
  const std::vector<AttentionSequence> sequences = read(*stream, input.sequences, 3);
  EXPECT_EQ(segments[0].count, 1);
  for (std::int32_t i = 1; i < 3; ++i) {
    EXPECT_EQ(sequences[static_cast<std::size_t>(i)].kv_len, 0);
    EXPECT_EQ(segments[static_cast<std::size_t>(i)].count, 0);
  }
}

TEST(StepBatch, TellsWhichKeysWereThereBeforeTheStep) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<std::int32_t> tokens = {9, 8, 7, 6, 5};
  const std::span<const std::int32_t> all = tokens;
  // Pages have four tokens. The first sequence fills its second page, 6, and continues; others
  // share it.
  batch.add_sequence(all, 5, std::vector<PageId>{PageId(2), PageId(6), PageId(3)}, 4, {});
  batch.add_sequence(all.first(1), 9, std::vector<PageId>{PageId(2), PageId(6), PageId(1)}, 4, {});
  batch.add_sequence(all.first(1), 9, std::vector<PageId>{PageId(2), PageId(7), PageId(4)}, 4, {});
  batch.add_sequence(all.first(2), 0, std::vector<PageId>{PageId(8)}, 4, {});
  const auto settled = [&] {
    const StepInput input = batch.upload(*stream);
    std::vector<std::int32_t> each;
    for (const AttentionSequence& s : read(*stream, input.sequences, input.num_sequences)) {
      each.push_back(s.settled);
    }
    return each;
  };
  EXPECT_EQ(settled(), (std::vector<std::int32_t>{5, 4, 9, 0}));
  batch.clear();
  batch.add_sequence(all.first(1), 9, std::vector<PageId>{PageId(2), PageId(6), PageId(1)}, 4, {});
  EXPECT_EQ(settled(), (std::vector<std::int32_t>{9})) << "what was filled in a step before";

  // The second sequence sees no key before the second page that the first one fills.
  batch.clear();
  const std::vector<std::int32_t> two_pages(8, 4);
  batch.add_sequence(two_pages, 0, std::vector<PageId>{PageId(2), PageId(6)}, 4, {});
  batch.add_sequence(all.first(1), 8, std::vector<PageId>{PageId(31), PageId(6), PageId(1)}, 4, {});
  EXPECT_EQ(settled(), (std::vector<std::int32_t>{0, 0}));

  // Any sequence may fill a page; of several filled pages the first counts; padding fills none.
  batch.clear();
  batch.add_sequence(all.first(1), 8, std::vector<PageId>{PageId(5), PageId(6), PageId(1)}, 4, {});
  batch.add_sequence(all.first(1), 3, std::vector<PageId>{PageId(5)}, 4, {});
  batch.pad(decode_bounds(3, 8, 100));
  EXPECT_EQ(settled(), (std::vector<std::int32_t>{0, 3, 0}));
  batch.clear();
  const std::vector<std::int32_t> many(9, 4);
  batch.add_sequence(all.first(1), 12,
                     std::vector<PageId>{PageId(0), PageId(5), PageId(6), PageId(1)}, 4, {});
  batch.add_sequence(many, 4, std::vector<PageId>{PageId(0), PageId(5), PageId(6), PageId(7)}, 4,
                     {});
  EXPECT_EQ(settled(), (std::vector<std::int32_t>{4, 4}));
}

TEST(StepBatch, MayBeFilledAgainWhileTheDeviceStillReadsIt) {
  auto device = make_test_device();
  auto stream = device->create_stream("test").value();
  StepBatch batch = StepBatch::create(*device, {32, 8, 8, 32, 64, 16}).value();
  const std::vector<PageId> pages = {PageId(0)};
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
