// The three ways to launch the LoRA operation agree; tests/gpu/ops judges the one that is chosen.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

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

TEST(LoraKernel, PaddedUnpaddedAndSegmentedAgree) {
  constexpr std::int64_t kIn = 1024;
  constexpr std::int64_t kOut = 288;
  constexpr std::int32_t kRanks[] = {8, 100, 16, 64, 1};
  constexpr std::int32_t kCounts[] = {70, 1, 0, 33, 5};
  std::mt19937_64 random(20261120);
  std::vector<LoraMatrix> table;
  std::vector<LoraSegment> segments;
  std::vector<std::unique_ptr<OnGpu<std::uint16_t>>> weights;
  std::int32_t rows = 0;
  for (int i = 0; i < 5; ++i) {
    const std::int32_t stride = (kRanks[i] + 7) / 8 * 8;
    const auto a = random_halves(random, static_cast<std::size_t>(kRanks[i] * kIn), 0.03F);
    auto b = random_halves(random, static_cast<std::size_t>(stride * kOut), 0.3F);
    for (std::int64_t o = 0; o < kOut; ++o) {
      for (std::int64_t r = kRanks[i]; r < stride; ++r)
        b[static_cast<std::size_t>(o * stride + r)] = 0;
    }
    weights.push_back(std::make_unique<OnGpu<std::uint16_t>>(a));
    weights.push_back(std::make_unique<OnGpu<std::uint16_t>>(b));
    table.push_back({reinterpret_cast<std::uint64_t>(weights[weights.size() - 2]->data()),
                     reinterpret_cast<std::uint64_t>(weights.back()->data()), kRanks[i], stride});
    segments.push_back({i, rows, kCounts[i]});
    rows += kCounts[i];
  }
  std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
  for (std::int32_t i = 0; i < rows; ++i) order[static_cast<std::size_t>(i)] = rows - 1 - i;
  const OnGpu<std::uint16_t> x(random_halves(random, static_cast<std::size_t>(rows * kIn), 1));
  const OnGpu<LoraMatrix> table_there(table);
  const OnGpu<LoraSegment> segments_there(segments);
  const OnGpu<std::int32_t> rows_there(order);

  std::vector<std::vector<float>> results;
  for (const LoraKernel kernel : {LoraKernel::mbgmv, LoraKernel::bgmv, LoraKernel::sgmv}) {
    const OnGpu<float> out(std::vector<float>(static_cast<std::size_t>(rows * kOut), 0.25F));
    LoraArgs args;
    args.x = TensorView(x.data(), DType::bf16, {rows, kIn});
    args.table = table_there.data();
    args.slot_stride = 1;
    args.num_modules = 1;
    args.out[0] = TensorView(out.data(), DType::f32, {rows, kOut});
    args.rows = rows_there.data();
    args.num_rows = rows;
    args.segments = segments_there.data();
    args.num_segments = 5;
    args.max_rank = 100;
    args.max_count = 70;
    const Status status = launch_lora(args, nullptr, kernel);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    results.push_back(out.download());
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    ASSERT_NEAR(results[1][i], results[0][i], 1e-4) << "bgmv, element " << i;
    ASSERT_NEAR(results[2][i], results[0][i], 1e-4) << "sgmv, element " << i;
    ASSERT_NE(results[0][i], 0.25F) << "row without its delta, element " << i;
  }
}

}  // namespace
}  // namespace tandem::cuda
