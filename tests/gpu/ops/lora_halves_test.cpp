// The two halves of the LoRA operation, which devices that share a model compute before and after
// exchanging v. Here one device computes every rank's part.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/gpu/ops/lora_weights.h"

namespace tandem {
namespace {

// For float sums of up to 4096 products in another order.
constexpr Tolerance kOfV{1e-4, 1e-4};

struct HalvesCase {
  DType dtype = DType::bf16;
  DType out_dtype = DType::bf16;
  std::int64_t in = 0;
  std::vector<std::int64_t> outputs;             // columns to which the operation adds
  std::vector<std::vector<std::int32_t>> ranks;  // [slot][module]
  std::vector<std::int32_t> counts;              // rows of segment i, which uses slot i % slots
  std::int32_t shares = 1;
  std::int32_t first_column = 0;
  std::int32_t shift = 0;       // > 0: the weights lie in chunks of 2^shift bytes
  std::int32_t rank_bound = 0;  // 0: the largest rank
};

class LoraHalves : public LoraTest {
 protected:
  void check(const HalvesCase& c) {
    const auto modules = static_cast<std::int32_t>(c.outputs.size());
    std::vector<std::int64_t> all = c.outputs;
    for (std::int64_t& width : all) width += c.first_column;
    Weights weights;
    make_weights(c.dtype, c.in, all, c.ranks, weights);
    if (c.shift > 0) scatter_weights(all.size(), c.shift, weights);
    const auto used = std::accumulate(c.counts.begin(), c.counts.end(), std::int32_t{0});
    const std::int64_t t = used + 3;
    std::vector<std::int32_t> rows(static_cast<std::size_t>(t));
    std::iota(rows.begin(), rows.end(), 0);
    std::shuffle(rows.begin(), rows.end(), random_);
    std::vector<LoraSegment> segments;
    std::int32_t first = 0;
    for (std::size_t i = 0; i < c.counts.size(); ++i) {
      segments.push_back({static_cast<std::int32_t>(i % c.ranks.size()), first, c.counts[i]});
      first += c.counts[i];
    }
    const std::int64_t width = std::accumulate(c.outputs.begin(), c.outputs.end(), std::int64_t{0});
    const TestTensor x = tensor(c.dtype, {t, c.in}, 1, 8);
    const TestTensor out = tensor(c.out_dtype, {t, width});
    const auto row_array = array(rows);
    const auto segment_array = array(segments);
    const auto matrices = array(weights.device_table);

    LoraArgs args;
    args.slot_stride = modules;
    args.num_modules = modules;
    args.num_rows = used;
    args.num_segments = static_cast<std::int32_t>(segments.size());
    args.max_rank = std::max(weights.max_rank, c.rank_bound);
    args.max_count = *std::max_element(c.counts.begin(), c.counts.end());
    args.num_shares = c.shares;
    const auto use = [&](bool device) {
      args.x = device ? x.on_device() : x.host();
      args.table = device ? matrices.on_device() : weights.host_table.data();
      args.pages = device ? weights.device_pages : weights.host_pages;
      args.rows = device ? row_array.on_device() : row_array.host();
      args.segments = device ? segment_array.on_device() : segment_array.host();
      const TensorView whole = device ? out.on_device() : out.host();
      std::int64_t column = 0;
      for (std::int32_t m = 0; m < modules; ++m) {
        args.out[m] = whole.slice_cols(column, c.outputs[static_cast<std::size_t>(m)]);
        column += c.outputs[static_cast<std::size_t>(m)];
      }
    };

    // Elements that nobody has to write are NaN, to detect reads of them.
    const std::int64_t part_width = std::int64_t{modules} * lora_share(args.max_rank, c.shares);
    TestTensor gathered = tensor(DType::f32, {t, c.shares * part_width});
    auto* const all_v = static_cast<float*>(gathered.host().data);
    std::fill_n(all_v, gathered.host().num_elements(), std::nanf(""));
    args.part = LoraPart::shrink;
    for (args.share = 0; args.share < c.shares; ++args.share) {
      TestTensor part = tensor(DType::f32, {t, part_width});
      auto* const expected = static_cast<float*>(part.host().data);
      std::fill_n(expected, part.host().num_elements(), std::nanf(""));
      part.upload(*stream_);
      use(false);
      args.v = part.host();
      reference::lora(args);
      use(true);
      args.v = part.on_device();
      stream_->lora(args);
      const std::vector<std::byte> bytes = part.download(*stream_);
      std::vector<float> got(static_cast<std::size_t>(part.host().num_elements()));
      std::memcpy(got.data(), bytes.data(), got.size() * sizeof(float));
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(expected[i])) continue;
        ASSERT_TRUE(kOfV.accepts(got[i], expected[i]))
            << name(c) << ": v " << i << " of share " << args.share << " is " << got[i]
            << ", the twin says " << expected[i];
        const std::size_t columns = static_cast<std::size_t>(part_width);
        const std::size_t row = i / columns;
        all_v[(row * static_cast<std::size_t>(c.shares) + static_cast<std::size_t>(args.share)) *
                  columns +
              i % columns] = expected[i];
      }
    }
    gathered.upload(*stream_);
    args.part = LoraPart::expand;
    args.share = 0;
    args.first_column = c.first_column;
    use(false);
    args.v = gathered.host();
    reference::lora(args);
    use(true);
    args.v = gathered.on_device();
    stream_->lora(args);
    expect_same(out, name(c));
  }

  static std::string name(const HalvesCase& c) {
    return fmt::format(
        "{} into {} in {} modules {} slots {} segments {} shares {} from {} shift {}",
        to_string(c.dtype), to_string(c.out_dtype), c.in, c.outputs.size(), c.ranks.size(),
        c.counts.size(), c.shares, c.first_column, c.shift);
  }
};

// The twin's halves must equal its whole operation, since they judge the others.
TEST_F(LoraHalves, OfTheTwinMakeTheWhole) {
  const DType f32 = DType::f32;
  Weights weights;
  make_weights(f32, 24, {40, 16}, {{5, 9}, {0, 64}}, weights);
  const std::vector<std::int32_t> rows = {2, 0, 3};
  const std::vector<LoraSegment> segments = {{0, 0, 2}, {1, 2, 1}};
  const TestTensor x = tensor(f32, {4, 24});
  const TestTensor whole = tensor(f32, {4, 56});
  const TestTensor twice = tensor(f32, {4, 56});
  std::memcpy(twice.host().data, whole.host().data, 4 * 56 * sizeof(float));
  LoraArgs args;
  args.x = x.host();
  args.table = weights.host_table.data();
  args.slot_stride = 2;
  args.num_modules = 2;
  args.rows = rows.data();
  args.num_rows = 3;
  args.segments = segments.data();
  args.num_segments = 2;
  args.max_rank = 64;
  args.max_count = 2;
  args.out[0] = whole.host().slice_cols(0, 40);
  args.out[1] = whole.host().slice_cols(40, 16);
  reference::lora(args);

  args.num_shares = 3;
  const std::int64_t width = 2 * lora_share(64, 3);
  std::vector<float> all(static_cast<std::size_t>(4 * 3 * width), std::nanf(""));
  args.part = LoraPart::shrink;
  for (args.share = 0; args.share < 3; ++args.share) {
    std::vector<float> v(static_cast<std::size_t>(4 * width), std::nanf(""));
    args.v = TensorView(v.data(), f32, {4, width});
    reference::lora(args);
    for (std::int64_t row = 0; row < 4; ++row) {
      std::copy_n(v.data() + row * width, width, all.data() + (row * 3 + args.share) * width);
    }
  }
  args.part = LoraPart::expand;
  args.v = TensorView(all.data(), f32, {4, 3 * width});
  // Each module's columns in two launches, as two devices would have them.
  for (const std::int32_t from : {0, 8}) {
    args.first_column = from;
    args.out[0] = twice.host().slice_cols(from, from == 0 ? 8 : 32);
    args.out[1] = twice.host().slice_cols(40 + from, 8);
    reference::lora(args);
  }
  for (std::int64_t row = 0; row < 4; ++row) {
    for (std::int64_t column = 0; column < 56; ++column) {
      EXPECT_FLOAT_EQ(reference::at(twice.host(), row, column),
                      reference::at(whole.host(), row, column));
    }
  }
}

TEST_F(LoraHalves, MeetForEveryRankAndNumberOfShares) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t shares : {1, 2, 3, 4, 8}) {
      for (const std::int32_t rank : {1, 4, 5, 8, 9, 16, 31, 64, 100, 128, 512}) {
        check({dtype, dtype, 72, {48}, {{rank}}, {4, 1}, shares});
      }
    }
  }
}

TEST_F(LoraHalves, ServeManyAdaptersAndModulesAtOnce) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t shares : {2, 4}) {
      check({dtype,
             dtype,
             136,
             {64, 40, 16},
             {{16, 0, 3}, {0, 0, 0}, {5, 40, 7}},
             {1, 2, 5, 0, 3, 9},
             shares});
      check({dtype,
             dtype,
             131,
             {64, 33, 17},
             {{16, 0, 3}, {0, 0, 0}, {5, 40, 7}},
             {1, 2, 5, 0, 3, 9},
             shares});
    }
  }
}

// As in row-parallel products: the sum is complete, but for only some of the columns.
TEST_F(LoraHalves, AddToColumnsFromAnyOn) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t first : {8, 13, 96}) {
      check({dtype, DType::f32, 72, {104}, {{16}, {5}, {70}}, {1, 1, 4, 1, 9}, 1, first});
      check({dtype, DType::f32, 200, {96}, {{64}, {8}}, {1, 3}, 1, first, 12});
    }
  }
}

// As in a recorded step: only a bound on the ranks is known, and every adapter has a row.
TEST_F(LoraHalves, TakeABoundOnTheRank) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int32_t shares : {2, 4}) {
      check({dtype,
             dtype,
             256,
             {136, 72},
             {{8, 8}, {16, 3}, {40, 64}},
             std::vector<std::int32_t>(24, 1),
             shares,
             0,
             12,
             128});
      check({dtype,
             dtype,
             256,
             {136, 72},
             {{8, 8}, {5, 3}},
             std::vector<std::int32_t>(24, 1),
             shares,
             0,
             0,
             16});
    }
  }
}

// Shapes that a GPU splits over many blocks, and over few.
TEST_F(LoraHalves, CutLargeShapesWithoutSeams) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    check({dtype, dtype, 4096, {1024, 264}, {{64, 8}, {16, 200}}, {1, 2}, 2});
    check({dtype, dtype, 520, {520, 72, 72}, {{64, 64, 64}, {8, 16, 5}}, {21, 1, 17}, 4});
    check({dtype,
           dtype,
           72,
           {1992},
           {{16}, {8}, {40}, {64}, {72}, {24}},
           std::vector<std::int32_t>(165, 2),
           2});
    check({dtype,
           DType::f32,
           264,
           {2056},
           {{16}, {64}},
           std::vector<std::int32_t>(70, 1),
           1,
           2056,
           13});
  }
}

TEST_F(LoraHalves, MatchTheTwinForRandomMixes) {
  for (int round = 0; round < 25; ++round) {
    HalvesCase c;
    c.dtype = kDtypes[round % 3];
    c.out_dtype = pick(0, 1) == 0 ? c.dtype : DType::f32;
    const bool aligned = pick(0, 3) > 0;
    c.in = aligned ? 8 * pick(1, 60) : pick(1, 200);
    c.outputs.resize(static_cast<std::size_t>(pick(1, 3)));
    for (auto& width : c.outputs) width = aligned ? 8 * pick(1, 20) : pick(1, 150);
    c.ranks.resize(static_cast<std::size_t>(pick(1, 5)));
    for (auto& slot : c.ranks) {
      for (std::size_t m = 0; m < c.outputs.size(); ++m) {
        slot.push_back(static_cast<std::int32_t>(pick(0, 3) == 0 ? 0 : pick(1, 128)));
      }
    }
    c.counts.resize(static_cast<std::size_t>(pick(1, 8)));
    for (auto& count : c.counts) count = static_cast<std::int32_t>(pick(0, 20));
    c.shares = static_cast<std::int32_t>(pick(1, 8));
    c.first_column = static_cast<std::int32_t>(pick(0, 1) == 0 ? 0 : pick(1, 100));
    c.shift = static_cast<std::int32_t>(pick(0, 1) == 0 ? 0 : pick(12, 16));
    check(c);
  }
}

}  // namespace
}  // namespace tandem
