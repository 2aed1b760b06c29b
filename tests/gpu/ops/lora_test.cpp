#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <numeric>
#include <optional>

#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {
namespace {

class Lora : public OpsTest {
 protected:
  static std::uint64_t address(const TensorView& view) {
    return reinterpret_cast<std::uint64_t>(view.data);
  }

  // The weights of all slots: each matrix in memory of its own, or each slot's matrices one after
  // another, cut into chunks that lie anywhere in a pool.
  struct Weights {
    std::deque<TestTensor> tensors;
    std::vector<LoraMatrix> host_table;
    std::vector<LoraMatrix> device_table;
    std::int32_t max_rank = 0;
    LoraPages host_pages;
    LoraPages device_pages;
    std::vector<std::byte> pool;
    Buffer device_pool;
    std::optional<TestArray<std::int32_t>> ids;
  };

  void make_weights(DType dtype, std::int64_t in, const std::vector<std::int64_t>& outputs,
                    const std::vector<std::vector<std::int32_t>>& ranks, Weights& weights) {
    for (const auto& slot : ranks) {
      for (std::size_t m = 0; m < outputs.size(); ++m) {
        const std::int32_t rank = slot[m];
        const std::int32_t stride = (rank + 7) / 8 * 8;
        const TestTensor& a = weights.tensors.emplace_back(
            tensor(dtype, {rank, in}, 1 / std::sqrt(static_cast<float>(in))));
        TestTensor& b = weights.tensors.emplace_back(tensor(dtype, {outputs[m], stride}, 0.3F));
        for (std::int64_t o = 0; o < b.host().rows(); ++o) {
          for (std::int64_t j = rank; j < stride; ++j) reference::put(b.host(), 0, o, j);
        }
        b.upload(*stream_);
        weights.host_table.push_back({address(a.host()), address(b.host()), rank, stride});
        weights.device_table.push_back(
            {address(a.on_device()), address(b.on_device()), rank, stride});
        weights.max_rank = std::max(weights.max_rank, rank);
      }
    }
  }

  // Moves what make_weights made into chunks of 2^shift bytes. What no matrix fills is NaN.
  void scatter_weights(DType dtype, std::size_t modules, std::int32_t shift, Weights& weights) {
    const std::size_t slots = weights.host_table.size() / modules;
    std::vector<std::vector<std::byte>> runs(slots);
    for (std::size_t i = 0; i < weights.tensors.size(); ++i) {
      std::vector<std::byte>& run = runs[i / 2 / modules];
      const TensorView& view = weights.tensors[i].host();
      LoraMatrix& matrix = weights.host_table[i / 2];
      (i % 2 == 0 ? matrix.a : matrix.b) = run.size();
      const auto bytes = static_cast<std::size_t>(view.num_elements()) * size_of(dtype);
      const std::size_t begin = run.size();
      run.resize(begin + (bytes + 63) / 64 * 64, std::byte{0xFF});
      if (bytes > 0) std::memcpy(run.data() + begin, view.data, bytes);
    }
    const std::size_t chunk = std::size_t{1} << shift;
    std::size_t most = 1;
    std::size_t total = 2;  // chunks that nobody owns
    for (const auto& run : runs) {
      const std::size_t chunks = (run.size() + chunk - 1) / chunk;
      most = std::max(most, chunks);
      total += chunks;
    }
    std::vector<std::int32_t> order(total);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    weights.pool.assign(total * chunk, std::byte{0xFF});
    std::vector<std::int32_t> ids(slots * most, -1);
    std::size_t next = 0;
    for (std::size_t s = 0; s < slots; ++s) {
      for (std::size_t c = 0; c * chunk < runs[s].size(); ++c) {
        const std::int32_t id = order[next++];
        ids[s * most + c] = id;
        std::memcpy(weights.pool.data() + static_cast<std::size_t>(id) * chunk,
                    runs[s].data() + c * chunk, std::min(chunk, runs[s].size() - c * chunk));
      }
    }
    weights.device_table = weights.host_table;
    weights.device_pool = std::move(device_->allocate(weights.pool.size(), "test pool")).value();
    stream_->copy_to_device(weights.device_pool.data(), weights.pool.data(), weights.pool.size());
    weights.ids.emplace(*device_, *stream_, ids);
    const auto stride = static_cast<std::int64_t>(most);
    weights.host_pages = {weights.pool.data(), weights.ids->host(), stride, shift};
    weights.device_pages = {weights.device_pool.data(), weights.ids->on_device(), stride, shift};
  }

  // ranks[slot][module]; counts[i] rows of segment i, which uses slot i % slots. shift > 0: the
  // weights lie in chunks of 2^shift bytes.
  void check(DType dtype, DType out_dtype, std::int64_t t, std::int64_t in,
             const std::vector<std::int64_t>& outputs,
             const std::vector<std::vector<std::int32_t>>& ranks,
             const std::vector<std::int32_t>& counts, std::int32_t shift = 0) {
    const auto modules = static_cast<std::int64_t>(outputs.size());
    Weights weights;
    make_weights(dtype, in, outputs, ranks, weights);
    if (shift > 0) scatter_weights(dtype, outputs.size(), shift, weights);
    const std::int32_t max_rank = weights.max_rank;
    std::vector<std::int32_t> rows(static_cast<std::size_t>(t));
    std::iota(rows.begin(), rows.end(), 0);
    std::shuffle(rows.begin(), rows.end(), random_);
    std::vector<LoraSegment> segments;
    std::int32_t used = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      // Whatever an empty segment's slot says, it is not read.
      const bool empty = counts[i] == 0 && pick(0, 1) == 0;
      segments.push_back(
          {empty ? -1 : static_cast<std::int32_t>(i % ranks.size()), used, counts[i]});
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
    args.scratch = scratch.on_device();
    place(out.on_device());
    stream_->lora(args);
    expect_same(out,
                fmt::format("{} into {} T {} in {} modules {} segments {} max rank {} shift {}",
                            to_string(dtype), to_string(out_dtype), t, in, modules, segments.size(),
                            max_rank, shift));
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

// Rows of A and of B lie across chunks here: 2^12 bytes are 5 rows of 384 bf16 and a part.
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

// Shapes that a GPU cuts over many blocks: long dot products, wide outputs, long segments.
TEST_F(Lora, CutsLargeShapesWithoutSeams) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    check(dtype, dtype, 3, 4096, {1024, 264}, {{64, 8}, {16, 200}}, {1, 2});
    check(dtype, dtype, 90, 512, {520}, {{64}, {8}, {16}}, {65, 1, 17});
    check(dtype, DType::f32, 200, 264, {136}, {{24}, {72}}, {130, 64});
    check(dtype, dtype, 700, 264, {136}, {{40}, {200}}, {520, 0, 150});
    check(dtype, dtype, 4200, 72, {40}, {{40}, {9}}, {4099, 65});
  }
}

}  // namespace
}  // namespace tandem
