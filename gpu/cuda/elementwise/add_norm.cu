// residual = scale (residual + norm(sum)), or scale (residual + sum); out = norm(residual), or =
// residual. A block per row. Bound by memory (sum and residual read, residual and out written); few
// rows: by latency. So up to a hidden size of 8192 each thread has one vector in registers, all
// loads are in flight at once, and those of weights before earlier kernels have ended. Longer and
// unaligned rows are read once for each of the two means and once more to write: the later reads
// find them in the caches.
#include <algorithm>

#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kVector = 8;  // rows whose width is no multiple take the loop, element by element

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

// Loads the weights of a norm; without any, ones.
template <int V>
__device__ __forceinline__ void load_weights(const float* from, int i, float (&to)[V]) {
#pragma unroll
  for (int j = 0; j < V; ++j) to[j] = 1;
  if (from != nullptr) load_row<V>(from + i, to);
}

// Rows of at most V elements a thread.
template <typename Y, int V>
__global__ void __launch_bounds__(kMostThreads) add_norm_held(AddNormParams p) {
  allow_next_kernel();
  __shared__ float sums[2][kMostThreads / 32];
  const std::int64_t row = blockIdx.x;
  const int column = static_cast<int>(threadIdx.x) * V;
  const bool mine = column < p.width;
  float* const residual = p.residual + row * p.residual_stride + column;
  float weight[V];
  float sum_weight[V];
  float values[V] = {};
  float added[V] = {};
  if (mine) {
    load_weights<V>(p.weight, column, weight);
    load_weights<V>(p.sum_weight, column, sum_weight);
  }
  wait_for_previous_kernels();
  if (mine) {
    load_row<V>(residual, values);
    if (p.sum != nullptr) load_row<V>(p.sum + row * p.sum_stride + column, added);
  }
  const auto factor_of = [&](const float(&x)[V], float* shared) {
    float squares = 0;
#pragma unroll
    for (int j = 0; j < V; ++j) squares += x[j] * x[j];
    return 1.0F / sqrtf(block_sum(squares, shared) / static_cast<float>(p.width) + p.eps);
  };
  if (p.sum != nullptr) {
    const float factor = p.sum_weight == nullptr ? 1.0F : factor_of(added, sums[0]);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (mine) values[j] = p.scale * (values[j] + added[j] * (factor * sum_weight[j]));
    }
    if (mine) store_row<V>(residual, values);
  }
  if (p.out == nullptr) return;
  const float factor = p.weight == nullptr ? 1.0F : factor_of(values, sums[1]);
  if (!mine) return;
#pragma unroll
  for (int j = 0; j < V; ++j) values[j] *= factor * weight[j];
  store_row<V>(static_cast<Y*>(p.out) + row * p.out_stride + column, values);
}

template <typename Y, int V>
__global__ void __launch_bounds__(kMostThreads) add_norm_loop(AddNormParams p) {
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
  constexpr const char* kName = "add_norm";
  const auto shape = [&](int vector) {
    const std::int64_t threads = ceil_div(ceil_div(p.width, vector), 32) * 32;
    return LaunchShape{
        .grid = dim3(static_cast<unsigned>(rows)),
        .block = dim3(static_cast<unsigned>(std::min<std::int64_t>(threads, kMostThreads))),
        .overlap = true};
  };
  if (!wide) return launch_kernel(kName, shape(1), stream, add_norm_loop<Y, 1>, p);
  if (p.width <= kMostThreads * 4) {
    return launch_kernel(kName, shape(4), stream, add_norm_held<Y, 4>, p);
  }
  if (p.width <= kMostThreads * 8) {
    return launch_kernel(kName, shape(8), stream, add_norm_held<Y, 8>, p);
  }
  return launch_kernel(kName, shape(8), stream, add_norm_loop<Y, 8>, p);
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
