#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tests/gpu/ops/lora_weights.h"

namespace tandem {
namespace {

class Lora : public LoraTest {
 protected:
  // ranks[slot][module]; counts[i] rows of segment i, which uses slot i % slots. With shift > 0 the
  // weights lie in chunks of 2^shift bytes.
  void check(DType dtype, DType out_dtype, std::int64_t t, std::int64_t in,
             const std::vector<std::int64_t>& outputs,
             const std::vector<std::vector<std::int32_t>>& ranks,
             const std::vector<std::int32_t>& counts, std::int32_t shift = 0, bool biases = false) {
    const auto modules = static_cast<std::int64_t>(outputs.size());
    Weights weights;
    make_weights(dtype, in, outputs, ranks, weights, biases);
    if (shift > 0) scatter_weights(outputs.size(), shift, weights);
    const std::int32_t max_rank = weights.max_rank;
    std::vector<std::int32_t> rows(static_cast<std::size_t>(t));
    std::iota(rows.begin(), rows.end(), 0);
    std::shuffle(rows.begin(), rows.end(), random_);
    std::vector<LoraSegment> segments;
    std::int32_t used = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      // An empty segment's slot must not be read, whatever its value.
      const bool empty = counts[i] == 0 && pick(0, 1) == 0;
      segments.push_back(
          {empty ? -1 : static_cast<std::int32_t>(i % ranks.size()), used, counts[i]});
      used += counts[i];
    }
    ASSERT_LE(used, t);
    const TestTensor x = tensor(dtype, {t, in}, 1, 3);
    std::int64_t width = std::accumulate(outputs.begin(), outputs.end(), std::int64_t{0});
    const TestTensor out = tensor(out_dtype, {t, width});
    const auto row_array = array(rows);
    const auto segment_array = array(segments);
    const auto device_matrices = array(weights.device_table);

    LoraArgs args;
    args.slot_stride = modules;
    args.num_modules = static_cast<std::int32_t>(modules);
    args.num_rows = used;
    args.num_segments = static_cast<std::int32_t>(segments.size());
    args.max_rank = max_rank;
    args.max_count = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
    const auto place = [&](const TensorView& whole) {
      std::int64_t column = 0;
      for (std::int64_t m = 0; m < modules; ++m) {
        args.out[m] = whole.slice_cols(column, outputs[static_cast<std::size_t>(m)]);
        column += outputs[static_cast<std::size_t>(m)];
      }
    };
    args.x = x.host();
    args.table = weights.host_table.data();
    args.pages = weights.host_pages;
    args.rows = row_array.host();
    args.segments = segment_array.host();
    place(out.host());
    reference::lora(args);
    args.x = x.on_device();
    args.table = device_matrices.on_device();
    args.pages = weights.device_pages;
    args.rows = row_array.on_device();
    args.segments = segment_array.on_device();
    place(out.on_device());
    stream_->lora(args);
    // A device may add the bias to what it has rounded: half an ulp of numbers up to 2.
    Tolerance tolerance = tolerance_of(out_dtype);
    if (biases) tolerance.absolute += tolerance.relative;
    expect_same(out,
                fmt::format("{} into {} T {} in {} modules {} segments {} max rank {} shift {}",
                            to_string(dtype), to_string(out_dtype), t, in, modules, segments.size(),
                            max_rank, shift),
                tolerance);
  }
};

TEST_F(Lora, AddsTheDeltaOfEveryRank) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t rank : {1, 3, 5, 8, 12, 16, 40, 64, 512}) {
      check(dtype, dtype, 5, 72, {50}, {{rank}}, {4});
    }
  }
}

TEST_F(Lora, TakesRanksUpToTheDevicesLimit) {
  const std::int32_t most = device_->info().max_lora_rank;
  for (const DType dtype : kDtypes) check(dtype, dtype, 3, 40, {24}, {{most}, {7}}, {2, 1});
}

TEST_F(Lora, AddsBiasesOnceToEachRow) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t rank : {1, 4, 8, 13, 40}) {
      check(dtype, dtype, 9, 72, {50, 20}, {{rank, 0}, {rank, 3}, {2, rank}}, {3, 1, 4}, 0, true);
    }
    check(dtype, DType::f32, 70, 384, {200, 72}, {{64, 8}, {0, 4}, {128, 16}}, {3, 2, 65}, 12,
          true);
  }
}

TEST_F(Lora, ServesManyAdaptersAndModulesAtOnce) {
  for (const DType dtype : kDtypes) {
    check(dtype, dtype, 20, 130, {64, 33, 17}, {{16, 0, 3}, {0, 0, 0}, {1, 40, 7}},
          {1, 2, 5, 0, 3, 9});
  }
}

TEST_F(Lora, MatchesTheTwinForRandomMixes) {
  for (int round = 0; round < 25; ++round) {
    std::vector<std::int64_t> outputs(static_cast<std::size_t>(pick(1, 3)));
    for (auto& width : outputs) width = pick(1, 150);
    std::vector<std::vector<std::int32_t>> ranks(static_cast<std::size_t>(pick(1, 4)));
    for (auto& slot : ranks) {
      for (std::size_t m = 0; m < outputs.size(); ++m) {
        slot.push_back(static_cast<std::int32_t>(pick(0, 3) == 0 ? 0 : pick(1, 60)));
      }
    }
    std::vector<std::int32_t> counts(static_cast<std::size_t>(pick(0, 6)));
    for (auto& count : counts) count = static_cast<std::int32_t>(pick(0, 90));
    const auto rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const DType dtype = kDtypes[round % 3];
    check(dtype, pick(0, 1) == 0 ? dtype : DType::f32, rows + pick(0, 10), pick(1, 200), outputs,
          ranks, counts);
  }
}

// Rows of A and of B cross chunk borders here: 2^12 bytes are 5 rows of 384 bf16 and a part.
TEST_F(Lora, GathersWeightsFromShuffledChunks) {
  for (const DType dtype : kDtypes) {
    check(dtype, dtype, 9, 384, {200, 72, 64}, {{64, 8, 16}, {0, 40, 1}, {128, 0, 24}},
          {3, 0, 5, 1}, 12);
    check(dtype, DType::f32, 9, 384, {200, 72}, {{64, 8}, {0, 0}, {128, 512}}, {3, 2, 4}, 14);
  }
}

TEST_F(Lora, GathersChunksWhenRowsHaveNoAlignment) {
  for (const DType dtype : kDtypes) {
    check(dtype, dtype, 7, 1031, {77, 5}, {{3, 17}, {9, 0}}, {2, 0, 1, 4}, 12);
  }
}

TEST_F(Lora, GathersRanksFromOneTo512InRandomMixes) {
  for (int round = 0; round < 12; ++round) {
    std::vector<std::int64_t> outputs(static_cast<std::size_t>(pick(1, 3)));
    for (auto& width : outputs) width = pick(0, 1) == 0 ? pick(1, 90) : 8 * pick(1, 20);
    std::vector<std::vector<std::int32_t>> ranks(static_cast<std::size_t>(pick(1, 4)));
    for (auto& slot : ranks) {
      for (std::size_t m = 0; m < outputs.size(); ++m) {
        slot.push_back(static_cast<std::int32_t>(pick(0, 4) == 0 ? 0 : 1 << pick(0, 9)));
      }
    }
    std::vector<std::int32_t> counts(static_cast<std::size_t>(pick(1, 6)));
    for (auto& count : counts) count = static_cast<std::int32_t>(pick(0, 2) == 0 ? 0 : pick(1, 20));
    const auto rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const DType dtype = kDtypes[round % 3];
    const std::int64_t in = round % 4 == 3 ? pick(1, 300) : 8 * pick(1, 60);
    check(dtype, pick(0, 1) == 0 ? dtype : DType::f32, rows + pick(1, 10), in, outputs, ranks,
          counts, static_cast<std::int32_t>(pick(12, 18)));
  }
}

// Shapes that a GPU splits over many blocks: long dot products, wide outputs, long segments.
TEST_F(Lora, CutsLargeShapesWithoutSeams) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    check(dtype, dtype, 3, 4096, {1024, 264}, {{64, 8}, {16, 200}}, {1, 2});
    check(dtype, dtype, 90, 512, {520}, {{64}, {8}, {16}}, {65, 1, 17});
    check(dtype, DType::f32, 200, 264, {136}, {{24}, {72}}, {130, 64});
    check(dtype, dtype, 700, 264, {136}, {{40}, {200}}, {520, 0, 150});
    check(dtype, dtype, 4200, 72, {40}, {{40}, {9}}, {4099, 65});
  }
}

// There are so many tiles that each gets few blocks: their warps process columns in sequence, and
// load y for the next ones while they store the last.
TEST_F(Lora, AddsToManyColumnsOfManySegments) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int64_t out : {4104, 1992}) {
      check(dtype, dtype, 150, 72, {out}, {{8}, {3}}, std::vector<std::int32_t>(144, 1));
      check(dtype, dtype, 330, 72, {out}, {{16}, {8}, {40}, {64}, {72}, {24}},
            std::vector<std::int32_t>(165, 2));
      check(dtype, DType::f32, 150, 72, {out}, {{8}, {16}}, std::vector<std::int32_t>(144, 1), 12);
    }
  }
}

// Prompts: long and short segments, whose last tiles are full, almost full or one row.
TEST_F(Lora, TakesLongSegmentsOfEveryLength) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int32_t count : {64, 65, 127, 128, 255, 1000}) {
      const auto rank =
          std::vector<std::int32_t>{8, 16, 20, 64, 128}[static_cast<std::size_t>(pick(0, 4))];
      check(dtype, dtype, count + 9, 200, {136}, {{rank}}, {count});
      check(dtype, dtype, count + 80, 72, {64, 72, 200}, {{rank, 0, 16}, {20, 64, 8}},
            {count, 3, 0, 70});
    }
  }
}

TEST_F(Lora, TakesLongSegmentsOfEveryRank) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int32_t rank : {1, 8, 16, 20, 64, 72, 128, 256, 512}) {
      check(dtype, dtype, 150, 136, {200, 72}, {{rank, 24}, {16, rank}}, {66, 80});
      check(dtype, DType::f32, 150, 136, {200}, {{rank}}, {140});
    }
  }
}

TEST_F(Lora, GathersLongSegmentsWeightsFromShuffledChunks) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    check(dtype, dtype, 400, 392, {200, 72}, {{64, 8}, {20, 0}, {128, 24}}, {129, 1, 64, 90, 3},
          12);
    check(dtype, DType::f32, 300, 392, {72}, {{64}, {5}}, {65, 200}, 13);
  }
}

}  // namespace
}  // namespace tandem
