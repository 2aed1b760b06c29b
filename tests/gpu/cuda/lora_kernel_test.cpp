// All ways to launch the LoRA operation must agree; tests/gpu/ops checks the one that is chosen.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/lora/lora.h"

namespace tandem::cuda {
namespace {

template <typename T>
class OnGpu {
 public:
  explicit OnGpu(const std::vector<T>& values) : count_(values.size()) {
    EXPECT_EQ(cudaMalloc(&data_, count_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  ~OnGpu() { (void)cudaFree(data_); }

  T* data() const { return static_cast<T*>(data_); }
  std::vector<T> download() const {
    std::vector<T> copy(count_);
    EXPECT_EQ(cudaMemcpy(copy.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return copy;
  }

 private:
  void* data_ = nullptr;
  std::size_t count_;
};

std::vector<std::uint16_t> random_halves(std::mt19937_64& random, std::size_t count, float scale) {
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<std::uint16_t> values(count);
  for (auto& value : values) {
    const float x = uniform(random);
    convert(DType::f32, &x, DType::bf16, &value, 1);
  }
  return values;
}

// Segments of counts[i] rows of bf16, each with an adapter of rank ranks[i], rows in reverse.
class Scene {
 public:
  Scene(std::int64_t in, std::int64_t out, const std::vector<std::int32_t>& ranks,
        const std::vector<std::int32_t>& counts)
      : in_(in), out_(out) {
    std::vector<LoraMatrix> table;
    std::vector<LoraSegment> segments;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const std::int32_t rank = ranks[i];
      const std::int32_t stride = (rank + 7) / 8 * 8;
      const auto a = random_halves(random_, static_cast<std::size_t>(rank * in), 0.03F);
      auto b = random_halves(random_, static_cast<std::size_t>(stride * out), 0.3F);
      for (std::int64_t o = 0; o < out; ++o) {
        for (std::int64_t r = rank; r < stride; ++r)
          b[static_cast<std::size_t>(o * stride + r)] = 0;
      }
      weights_.push_back(std::make_unique<OnGpu<std::uint16_t>>(a));
      const std::uint16_t* a_there = weights_.back()->data();
      weights_.push_back(std::make_unique<OnGpu<std::uint16_t>>(b));
      table.push_back({reinterpret_cast<std::uint64_t>(a_there),
                       reinterpret_cast<std::uint64_t>(weights_.back()->data()), rank, stride});
      segments.push_back({static_cast<std::int32_t>(i), rows_, counts[i]});
      rows_ += counts[i];
    }
    std::vector<std::int32_t> order(static_cast<std::size_t>(rows_));
    for (std::int32_t i = 0; i < rows_; ++i) order[static_cast<std::size_t>(i)] = rows_ - 1 - i;
    max_rank_ = *std::max_element(ranks.begin(), ranks.end());
    max_count_ = *std::max_element(counts.begin(), counts.end());
    num_segments_ = static_cast<std::int32_t>(segments.size());
    x_.emplace(random_halves(random_, static_cast<std::size_t>(rows_ * in), 1));
    table_.emplace(table);
    segments_.emplace(segments);
    order_.emplace(order);
  }

  // The result of `launch` for outputs that start at 0.25.
  std::vector<float> run(const std::function<Status(const LoraArgs&)>& launch) const {
    const OnGpu<float> out(std::vector<float>(static_cast<std::size_t>(rows_ * out_), 0.25F));
    LoraArgs args;
    args.x = TensorView(x_->data(), DType::bf16, {rows_, in_});
    args.table = table_->data();
    args.slot_stride = 1;
    args.num_modules = 1;
    args.out[0] = TensorView(out.data(), DType::f32, {rows_, out_});
    args.rows = order_->data();
    args.num_rows = rows_;
    args.segments = segments_->data();
    args.num_segments = num_segments_;
    args.max_rank = max_rank_;
    args.max_count = max_count_;
    const Status status = launch(args);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return out.download();
  }

 private:
  std::mt19937_64 random_{20261120};
  std::int64_t in_;
  std::int64_t out_;
  std::int32_t rows_ = 0;
  std::int32_t max_rank_ = 0;
  std::int32_t max_count_ = 0;
  std::int32_t num_segments_ = 0;
  std::vector<std::unique_ptr<OnGpu<std::uint16_t>>> weights_;
  std::optional<OnGpu<std::uint16_t>> x_;
  std::optional<OnGpu<LoraMatrix>> table_;
  std::optional<OnGpu<LoraSegment>> segments_;
  std::optional<OnGpu<std::int32_t>> order_;
};

void expect_near(const std::vector<float>& got, const std::vector<float>& want,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 1e-4) << what << ", element " << i;
    ASSERT_NE(want[i], 0.25F) << "row without its delta, element " << i;
  }
}

TEST(LoraKernel, PaddedUnpaddedAndSegmentedAgree) {
  const Scene scene(1024, 288, {8, 100, 16, 64, 1}, {70, 1, 0, 33, 5});
  const auto run = [&](LoraKernel kernel) {
    return scene.run([&](const LoraArgs& args) { return launch_lora(args, nullptr, kernel); });
  };
  const std::vector<float> unpadded = run(LoraKernel::mbgmv);
  expect_near(run(LoraKernel::bgmv), unpadded, "bgmv");
  expect_near(run(LoraKernel::sgmv), unpadded, "sgmv");
}

// Covers parts of `in` and of the columns that are empty or end within a stage, tiles that are cut
// short, and ranks that end within a product; every run must give the same bits. `clusters`: pairs
// of log2 of a cluster's blocks and the number of these that are spared.
void check_cuts_of_long_segments(const std::vector<std::pair<int, int>>& clusters) {
  const Scene small(264, 136, {20, 64, 8, 16}, {65, 1, 0, 40});
  const Scene large(1096, 712, {64, 20, 5, 1}, {255, 127, 1, 64});
  const Scene high_ranks(520, 200, {128, 200, 72}, {1, 130, 64});
  for (const Scene* scene : {&small, &large, &high_ranks}) {
    const auto run = [&](const LoraCut& cut) {
      return scene->run([&](const LoraArgs& args) {
        return cuda_status(launch_cut(lora_params(args), cut, nullptr), "lora");
      });
    };
    const std::vector<float> want = scene->run(
        [&](const LoraArgs& args) { return launch_lora(args, nullptr, LoraKernel::mbgmv); });
    for (const std::int32_t tile_rows : {32, 64}) {
      for (const auto& [log_cluster, spare] : clusters) {
        for (const std::int32_t log_splits : {0, 2}) {
          LoraCut cut;
          cut.tile_rows = tile_rows;
          cut.log_cluster = log_cluster;
          cut.spare = spare;
          cut.log_splits = log_splits;
          const std::vector<float> got = run(cut);
          expect_near(got, want,
                      fmt::format("{} rows, {} blocks in a cluster, splits 2^{}", tile_rows,
                                  cut.blocks(), log_splits));
          ASSERT_EQ(run(cut), got);
        }
      }
    }
  }
}

TEST(LoraKernel, EveryCutOfLongSegmentsAgrees) {
  check_cuts_of_long_segments({{0, 0}, {1, 0}, {2, 1}, {3, 0}, {3, 1}, {3, 2}, {3, 3}});
}
// Clusters of more than eight blocks have separate tests, because some tools cannot check them
// (tools/test-gpu).
TEST(LoraKernel, EveryCutOfLongSegmentsAgreesInLargeClusters) {
  check_cuts_of_long_segments({{4, 0}, {4, 4}});
}

// Likewise for tiles of eight rows, with ranks up to eight, which have a kernel of their own, and
// above; compared with tiles of 32 rows.
void check_cuts_of_short_segments(const std::vector<std::int32_t>& log_clusters) {
  const Scene low_ranks(1096, 2120, {8, 3, 1, 5}, {8, 1, 0, 20});
  const Scene narrow(264, 136, {7, 8}, {3, 9});
  const Scene all_ranks(520, 1096, {8, 16, 40, 64, 100}, {2, 9, 8, 1, 7});
  for (const Scene* scene : {&low_ranks, &narrow, &all_ranks}) {
    const std::vector<float> want = scene->run(
        [&](const LoraArgs& args) { return launch_lora(args, nullptr, LoraKernel::sgmv); });
    for (const std::int32_t log_cluster : log_clusters) {
      for (const std::int32_t log_splits : {0, 1, 2}) {
        LoraCut cut;
        cut.tile_rows = 8;
        cut.log_cluster = log_cluster;
        cut.log_splits = log_splits;
        const auto run = [&] {
          return scene->run([&](const LoraArgs& args) {
            return cuda_status(launch_cut(lora_params(args), cut, nullptr), "lora");
          });
        };
        const std::vector<float> got = run();
        expect_near(got, want, fmt::format("cluster 2^{}, splits 2^{}", log_cluster, log_splits));
        ASSERT_EQ(run(), got);
      }
    }
  }
}

TEST(LoraKernel, EveryCutOfShortSegmentsAgrees) {
  check_cuts_of_short_segments({0, 1, 2, 3});
}
TEST(LoraKernel, EveryCutOfShortSegmentsAgreesInLargeClusters) {
  check_cuts_of_short_segments({4});
}

// Tiles that share clusters in pairs: some of them, all, an odd number, some of them empty.
TEST(LoraKernel, PairsOfShortTilesAgree) {
  const Scene scene(520, 1096, {128, 100, 64, 64, 40, 16, 8, 1, 33}, {1, 20, 0, 8, 1, 3, 1, 0, 2});
  const std::vector<float> want =
      scene.run([&](const LoraArgs& args) { return launch_lora(args, nullptr, LoraKernel::sgmv); });
  for (const std::int32_t log_cluster : {1, 2, 3}) {
    for (const std::int32_t paired : {0, 1, 2, 5, 8}) {
      LoraCut cut;
      cut.tile_rows = 8;
      cut.log_cluster = log_cluster;
      cut.paired = paired;
      const auto run = [&] {
        return scene.run([&](const LoraArgs& args) {
          return cuda_status(launch_cut(lora_params(args), cut, nullptr), "lora");
        });
      };
      const std::vector<float> got = run();
      expect_near(got, want, fmt::format("cluster 2^{}, paired from {}", log_cluster, paired));
      ASSERT_EQ(run(), got);
    }
  }
}

// bf16, 4096 to 4096, rank 64.
LoraParams step_of(std::int32_t segments, std::int32_t rows, std::int32_t max_count) {
  static const LoraRows kSomewhere{};
  LoraParams p;
  p.in = 4096;
  p.x_stride = 4096;
  p.num_modules = 1;
  p.out[0] = {nullptr, 4096, 4096};
  p.segments = &kSomewhere;
  p.num_segments = segments;
  p.num_rows = rows;
  p.max_count = max_count;
  p.max_rank = 64;
  return p;
}

TEST(LoraPlan, TakesLongTilesForPromptsAlone) {
  const auto tile_rows = [](const LoraParams& p, int major) {
    return plan_lora(p, {major}, LoraKernel::automatic).tile_rows;
  };
  EXPECT_EQ(tile_rows(step_of(1, 512, 512), 9), 32) << "a prompt";
  EXPECT_EQ(tile_rows(step_of(33, 544, 512), 9), 32) << "a prompt beside decoding rows";
  EXPECT_EQ(tile_rows(step_of(4, 8192, 2048), 9), 64) << "long prompts";
  EXPECT_EQ(tile_rows(step_of(64, 64, 1), 9), 8) << "decoding rows of distinct adapters";
  EXPECT_EQ(tile_rows(step_of(64, 64, 64), 9), 8) << "a recorded step, which may hold anything";
  EXPECT_EQ(tile_rows(step_of(1, 512, 512), 8), 8) << "too few tiles where there are no clusters";
  EXPECT_EQ(tile_rows(step_of(1, 4096, 4096), 8), 64) << "enough of them";
}

TEST(LoraPlan, KeepsClustersOfLongTilesToOneWave) {
  // The number of clusters of each size that an H200 runs at once, with two blocks per
  // multiprocessor.
  const std::map<int, int> at_once = {{2, 132}, {4, 62},  {6, 39}, {7, 32},
                                      {8, 30},  {12, 16}, {16, 14}};
  for (const std::int32_t out : {4096, 14336}) {
    for (std::int32_t rows = 32; rows <= 3968; rows += 32) {
      LoraParams step = step_of(1, rows, rows);
      step.out[0] = {nullptr, out, out};
      const LoraCut cut = plan_lora(step, {9}, LoraKernel::automatic);
      const int tiles = (rows + cut.tile_rows - 1) / cut.tile_rows;
      ASSERT_TRUE(at_once.contains(cut.blocks())) << cut.blocks() << " blocks";
      EXPECT_LE(tiles << cut.log_splits, at_once.at(cut.blocks())) << rows << " rows to " << out;
    }
  }
}

TEST(LoraPlan, PairsTilesSoThatAllRunAtOnce) {
  const std::map<int, int> at_once = {{2, 132}, {4, 62}, {8, 30}};
  int pairing = 0;
  for (const std::int32_t modules : {1, 3}) {
    for (std::int32_t tiles = 1; tiles <= 300; ++tiles) {
      LoraParams step = step_of(tiles, tiles, 1);
      step.max_rank = 128;
      step.num_modules = modules;
      step.out[1] = step.out[2] = step.out[0];
      EXPECT_EQ(plan_lora(step, {8}, LoraKernel::automatic).paired, -1) << "no clusters";
      const LoraCut cut = plan_lora(step, {9}, LoraKernel::automatic);
      if (cut.paired < 0) continue;
      ++pairing;
      ASSERT_TRUE(at_once.contains(cut.blocks())) << cut.blocks() << " blocks";
      ASSERT_LT(cut.paired, tiles);
      EXPECT_EQ(cut.log_splits, 0);
      const int clusters = modules * (cut.paired + (tiles - cut.paired + 1) / 2);
      EXPECT_LE(clusters, at_once.at(cut.blocks())) << tiles << " tiles";
    }
  }
  EXPECT_GT(pairing, 200);
  EXPECT_EQ(plan_lora(step_of(48, 48, 1), {9}, LoraKernel::automatic).paired, -1) << "rank 64";
}

}  // namespace
}  // namespace tandem::cuda
