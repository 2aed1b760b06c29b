#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {
namespace {

class Lora : public OpsTest {
 protected:
  static std::uint64_t address(const TensorView& view) {
    return reinterpret_cast<std::uint64_t>(view.data);
  }

  // ranks[slot][module]; counts[i] rows of segment i, which uses slot i % slots.
  void check(DType dtype, DType out_dtype, std::int64_t t, std::int64_t in,
             const std::vector<std::int64_t>& outputs,
             const std::vector<std::vector<std::int32_t>>& ranks,
             const std::vector<std::int32_t>& counts) {
    const auto modules = static_cast<std::int64_t>(outputs.size());
    std::deque<TestTensor> weights;
    std::vector<LoraMatrix> host_table;
    std::vector<LoraMatrix> device_table;
    std::int32_t max_rank = 0;
    for (const auto& slot : ranks) {
      for (std::int64_t m = 0; m < modules; ++m) {
        const std::int32_t rank = slot[static_cast<std::size_t>(m)];
        const std::int32_t stride = (rank + 7) / 8 * 8;
        const TestTensor& a =
            weights.emplace_back(tensor(dtype, {rank, in}, 1 / std::sqrt(static_cast<float>(in))));
        TestTensor& b = weights.emplace_back(
            tensor(dtype, {outputs[static_cast<std::size_t>(m)], stride}, 0.3F));
        for (std::int64_t o = 0; o < b.host().rows(); ++o) {
          for (std::int64_t j = rank; j < stride; ++j) reference::put(b.host(), 0, o, j);
        }
        b.upload(*stream_);
        host_table.push_back({address(a.host()), address(b.host()), rank, stride});
        device_table.push_back({address(a.on_device()), address(b.on_device()), rank, stride});
        max_rank = std::max(max_rank, rank);
      }
    }
    std::vector<std::int32_t> rows(static_cast<std::size_t>(t));
    std::iota(rows.begin(), rows.end(), 0);
    std::shuffle(rows.begin(), rows.end(), random_);
    std::vector<LoraSegment> segments;
    std::int32_t used = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      segments.push_back({static_cast<std::int32_t>(i % ranks.size()), used, counts[i]});
      used += counts[i];
    }
    ASSERT_LE(used, t);
    const TestTensor x = tensor(dtype, {t, in}, 1, 3);
    std::int64_t width = std::accumulate(outputs.begin(), outputs.end(), std::int64_t{0});
    const TestTensor out = tensor(out_dtype, {t, width});
    const TestTensor scratch =
        tensor(DType::f32, {t, std::int64_t{LoraArgs::kMaxModules} * std::max(max_rank, 1)});
    const auto row_array = array(rows);
    const auto segment_array = array(segments);
    const auto device_matrices = array(device_table);

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
    args.table = host_table.data();
    args.rows = row_array.host();
    args.segments = segment_array.host();
    place(out.host());
    reference::lora(args);
    args.x = x.on_device();
    args.table = device_matrices.on_device();
    args.rows = row_array.on_device();
    args.segments = segment_array.on_device();
    args.scratch = scratch.on_device();
    place(out.on_device());
    stream_->lora(args);
    expect_same(out, fmt::format("{} T {} in {} modules {} segments {} max rank {}",
                                 to_string(dtype), t, in, modules, segments.size(), max_rank));
  }
};

TEST_F(Lora, AddsTheDeltaOfEveryRank) {
  for (const DType dtype : kDtypes) {
    for (const std::int32_t rank : {1, 3, 5, 8, 12, 16, 40, 64, 512}) {
      check(dtype, dtype, 5, 72, {50}, {{rank}}, {4});
    }
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

}  // namespace
}  // namespace tandem
