// residual = scale (residual + norm(sum)), or scale (residual + sum); out = norm(residual), or =
// residual. A block per row, which it reads once for each of the two means and once more to write:
// the later reads find it in the caches. Bound by memory: sum and residual read, residual and out
// written.
#include <algorithm>

#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kVector = 4;

struct AddNormParams {
  const float* sum;  // null: nothing is added
  std::int64_t sum_stride;
  const float* sum_weight;  // null: the sum is added as it is
  float* residual;
  std::int64_t residual_stride;
  const float* weight;  // null: no norm of the residual
  void* out;            // null: only the residual is wanted
  std::int64_t out_stride;
  std::int32_t width;
  float eps;
  float scale;
};

// The sum of all threads' values, in each of them. `sums` is not read or written by anything else
// until the next call with another one.
__device__ __forceinline__ float block_sum(float value, float* sums) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / 32;
  value = 0;
  for (int warp = 0; warp < warps; ++warp) value += sums[warp];
  return value;
}

template <typename Y, int V>
__global__ void __launch_bounds__(kMostThreads) add_norm(AddNormParams p) {
  allow_next_kernel();
  __shared__ float sums[2][kMostThreads / 32];
  const std::int64_t row = blockIdx.x;
  const float* const sum = p.sum == nullptr ? nullptr : p.sum + row * p.sum_stride;
  float* const residual = p.residual + row * p.residual_stride;
  Y* const out = static_cast<Y*>(p.out) + row * p.out_stride;
  const int first = static_cast<int>(threadIdx.x) * V;
  const int step = static_cast<int>(blockDim.x) * V;
  wait_for_previous_kernels();

  float factor = 1;
  if (sum != nullptr && p.sum_weight != nullptr) {
    float squares = 0;
    for (int i = first; i < p.width; i += step) {
      float values[V];
      load_row<V>(sum + i, values);
#pragma unroll
      for (int j = 0; j < V; ++j) squares += values[j] * values[j];
    }
    factor = 1.0F / sqrtf(block_sum(squares, sums[0]) / static_cast<float>(p.width) + p.eps);
  }
  float squares = 0;
  for (int i = first; i < p.width; i += step) {
    float values[V];
    load_row<V>(residual + i, values);
    if (sum != nullptr) {
      float added[V];
      load_row<V>(sum + i, added);
      if (p.sum_weight != nullptr) {
        float weight[V];
        load_row<V>(p.sum_weight + i, weight);
#pragma unroll
        for (int j = 0; j < V; ++j) added[j] *= factor * weight[j];
      }
#pragma unroll
      for (int j = 0; j < V; ++j) values[j] = p.scale * (values[j] + added[j]);
      store_row<V>(residual + i, values);
    }
#pragma unroll
    for (int j = 0; j < V; ++j) squares += values[j] * values[j];
  }
  if (p.out == nullptr) return;
  factor = 1;
  if (p.weight != nullptr) {
    factor = 1.0F / sqrtf(block_sum(squares, sums[1]) / static_cast<float>(p.width) + p.eps);
  }
  for (int i = first; i < p.width; i += step) {  // each thread reads what it has written itself
    float values[V];
    load_row<V>(residual + i, values);
    if (p.weight != nullptr) {
      float weight[V];
      load_row<V>(p.weight + i, weight);
#pragma unroll
      for (int j = 0; j < V; ++j) values[j] *= factor * weight[j];
    }
    store_row<V>(out + i, values);
  }
}

template <typename Y>
Status launch(const AddNormParams& p, std::int64_t rows, bool wide, cudaStream_t stream) {
  const std::int64_t vectors = wide ? p.width / kVector : p.width;
  const auto threads =
      static_cast<unsigned>(std::min<std::int64_t>(ceil_div(vectors, 32) * 32, kMostThreads));
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(rows)), .block = dim3(threads), .overlap = true};
  return wide ? launch_kernel("add_norm", shape, stream, add_norm<Y, kVector>, p)
              : launch_kernel("add_norm", shape, stream, add_norm<Y, 1>, p);
}

}  // namespace

Status launch_add_norm(const AddNormArgs& args, cudaStream_t stream) {
  if (args.residual.num_elements() == 0) return {};
  bool wide = args.residual.cols() % kVector == 0;
  const auto floats_of = [&](const TensorView& view) {
    wide = wide && (view.rank == 0 || rows_aligned(view));
    return view.rank == 0 ? nullptr : static_cast<float*>(view.data);
  };
  AddNormParams p{};
  p.sum = floats_of(args.sum);
  p.sum_stride = args.sum.rank == 0 ? 0 : args.sum.stride[0];
  p.sum_weight = floats_of(args.sum_weight);
  p.residual = floats_of(args.residual);
  p.residual_stride = args.residual.stride[0];
  p.weight = floats_of(args.weight);
  p.width = static_cast<std::int32_t>(args.residual.cols());
  p.eps = args.eps;
  p.scale = args.scale;
  const std::int64_t rows = args.residual.rows();
  if (args.out.rank == 0) return launch<float>(p, rows, wide, stream);
  p.out = args.out.data;
  p.out_stride = args.out.stride[0];
  wide = wide && rows_aligned(args.out);
  return dispatch_dtype(args.out.dtype, [&](auto out) {
    return launch<typename decltype(out)::type>(p, rows, wide, stream);
  });
}

}  // namespace tandem::cuda
