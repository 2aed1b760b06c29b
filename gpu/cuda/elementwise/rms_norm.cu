// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight, over the last dimension; x[r] - mean(x[r]) in
// place of x[r] if the norm is centred. Of parts of rows, the sums of squares are given.
//
// Wide rows (hidden sizes): one block per row. The row stays in registers between sum and scaling;
// the weights are loaded before earlier kernels have ended. Narrow rows (heads), odd sizes: a warp
// or part of one per row, which reads the row twice. Bound by memory; few rows: by latency.
#include <algorithm>
#include <type_traits>

#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kMaxItems = 2;       // vectors of a row per thread of a block
constexpr int kLaneThreads = 128;  // per block, if each warp or part of one has a row
constexpr std::int64_t kNarrow = 512;

struct NormParams {
  const void* x;
  std::int64_t x_stride[2];  // row, head
  const float* weight;       // null: 1
  void* out;
  std::int64_t out_stride[2];
  std::int64_t rows;  // all heads included
  std::int32_t heads;
  std::int32_t width;
  float eps;
  const float* squares;  // null: x has whole rows
  std::int64_t squares_stride;
  float mean_over;  // elements of a whole row
};

template <typename X, typename Y, int kItems, bool kCentred>
__global__ void rms_norm_block(NormParams p) {
  allow_next_kernel();
  constexpr int V = kRowVector;
  __shared__ float sums[kMaxThreads / 32];
  __shared__ float sums_of_x[kMaxThreads / 32];
  const std::int64_t row = blockIdx.x;
  float weight[kItems][V];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * blockDim.x + threadIdx.x) * V;
    if (i < p.width && p.weight != nullptr) load_row<V>(p.weight + i, weight[item]);
  }
  wait_for_previous_kernels();

  float x[kItems][V];
  float sum = 0;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * blockDim.x + threadIdx.x) * V;
    if (i >= p.width) continue;
    load_row<V>(static_cast<const X*>(p.x) + row * p.x_stride[0] + i, x[item]);
#pragma unroll
    for (int j = 0; j < V; ++j) sum += kCentred ? x[item][j] : x[item][j] * x[item][j];
  }
  if constexpr (kCentred) {
    const float mean = block_sum(sum, sums_of_x) / static_cast<float>(p.width);
    sum = 0;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if (static_cast<int>((item * blockDim.x + threadIdx.x) * V) >= p.width) continue;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        x[item][j] -= mean;
        sum += x[item][j] * x[item][j];
      }
    }
  }
  sum = p.squares == nullptr ? block_sum(sum, sums) : p.squares[row * p.squares_stride];
  const float factor = 1.0F / sqrtf(sum / p.mean_over + p.eps);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * blockDim.x + threadIdx.x) * V;
    if (i >= p.width) continue;
#pragma unroll
    for (int j = 0; j < V; ++j)
      x[item][j] *= p.weight == nullptr ? factor : factor * weight[item][j];
    store_row<V>(static_cast<Y*>(p.out) + row * p.out_stride[0] + i, x[item]);
  }
}

// Sums over the threads that share a row.
__device__ __forceinline__ float lanes_sum(float value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  return value;
}

// A power-of-two number of threads, `lanes`, shares a row within a warp.
template <typename X, typename Y, int V, bool kCentred>
__global__ void rms_norm_lanes(NormParams p, int lanes) {
  allow_next_kernel();
  const std::int64_t row =
      (std::int64_t{blockIdx.x} * kLaneThreads + threadIdx.x) / static_cast<unsigned>(lanes);
  const std::int64_t t = row / p.heads;
  const std::int64_t head = row % p.heads;
  const X* const x = static_cast<const X*>(p.x) + t * p.x_stride[0] + head * p.x_stride[1];
  Y* const out = static_cast<Y*>(p.out) + t * p.out_stride[0] + head * p.out_stride[1];
  const int first = static_cast<int>(threadIdx.x & static_cast<unsigned>(lanes - 1)) * V;
  const int end = row < p.rows ? p.width : 0;  // all lanes of a warp take part in its sums
  wait_for_previous_kernels();

  float mean = 0;
  if constexpr (kCentred) {
    for (int i = first; i < end; i += lanes * V) {
      float values[V];
      load_row<V>(x + i, values);
#pragma unroll
      for (int j = 0; j < V; ++j) mean += values[j];
    }
    mean = lanes_sum(mean, lanes) / static_cast<float>(p.width);
  }
  float sum = 0;
  if (p.squares == nullptr) {
    for (int i = first; i < end; i += lanes * V) {
      float values[V];
      load_row<V>(x + i, values);
#pragma unroll
      for (int j = 0; j < V; ++j) sum += (values[j] - mean) * (values[j] - mean);
    }
    sum = lanes_sum(sum, lanes);
  } else if (row < p.rows) {
    sum = p.squares[row * p.squares_stride];
  }
  const float factor = 1.0F / sqrtf(sum / p.mean_over + p.eps);
  for (int i = first; i < end; i += lanes * V) {
    float values[V];
    float weight[V];
    load_row<V>(x + i, values);
    if (p.weight != nullptr) load_row<V>(p.weight + i, weight);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      values[j] = (values[j] - mean) * (p.weight == nullptr ? factor : factor * weight[j]);
    }
    store_row<V>(out + i, values);
  }
}

template <typename X, typename Y, bool kCentred = false>
Status launch(const NormParams& p, bool wide, cudaStream_t stream) {
  const char* const what = "rms_norm";
  const std::int64_t vectors = ceil_div(p.width, kRowVector);
  if (wide && p.heads == 1 && p.width > kNarrow && vectors <= kMaxItems * kMaxThreads) {
    const std::int64_t items = ceil_div(vectors, kMaxThreads);
    const auto threads = static_cast<unsigned>(ceil_div(ceil_div(vectors, items), 32) * 32);
    const LaunchShape shape{
        .grid = dim3(static_cast<unsigned>(p.rows)), .block = dim3(threads), .overlap = true};
    return items == 1
               ? launch_kernel(what, shape, stream, rms_norm_block<X, Y, 1, kCentred>, p)
               : launch_kernel(what, shape, stream, rms_norm_block<X, Y, kMaxItems, kCentred>, p);
  }
  int lanes = 1;
  while (lanes < 32 && lanes * (wide ? kRowVector : 1) < p.width) lanes *= 2;
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(ceil_div(p.rows * lanes, kLaneThreads))),
      .block = dim3(kLaneThreads),
      .overlap = true};
  return wide ? launch_kernel(what, shape, stream, rms_norm_lanes<X, Y, kRowVector, kCentred>, p,
                              lanes)
              : launch_kernel(what, shape, stream, rms_norm_lanes<X, Y, 1, kCentred>, p, lanes);
}

}  // namespace

Status launch_rms_norm(const RmsNormArgs& args, cudaStream_t stream) {
  if (args.x.num_elements() == 0) return {};
  if (args.own.table != nullptr) return launch_own_norm(args, stream);
  const bool per_head = args.x.rank == 3;
  const auto heads = static_cast<std::int32_t>(per_head ? args.x.dim[1] : 1);
  const auto head_stride = [&](const TensorView& view) { return per_head ? view.stride[1] : 0; };
  const NormParams p{args.x.data,
                     {args.x.stride[0], head_stride(args.x)},
                     static_cast<const float*>(args.weight.data),
                     args.out.data,
                     {args.out.stride[0], head_stride(args.out)},
                     args.x.rows() * heads,
                     heads,
                     static_cast<std::int32_t>(args.x.cols()),
                     args.eps,
                     static_cast<const float*>(args.squares.data),
                     args.squares.stride[0],
                     static_cast<float>(args.squares.rank == 0 ? args.x.cols() : args.width)};
  const bool wide = rows_aligned(args.x) && (args.weight.rank == 0 || rows_aligned(args.weight)) &&
                    rows_aligned(args.out) && p.width % kRowVector == 0;
  return dispatch_dtype(args.x.dtype, [&](auto x_type) {
    using X = typename decltype(x_type)::type;
    if constexpr (std::is_same_v<X, float>) {
      if (args.centred) {
        return dispatch_dtype(args.out.dtype, [&](auto out_type) {
          return launch<X, typename decltype(out_type)::type, true>(p, wide, stream);
        });
      }
    }
    if (args.out.dtype == args.x.dtype) return launch<X, X>(p, wide, stream);
    if constexpr (std::is_same_v<X, float>) {
      return dispatch_dtype(args.out.dtype, [&](auto out_type) {
        return launch<X, typename decltype(out_type)::type>(p, wide, stream);
      });
    } else {
      TANDEM_CHECK(args.out.dtype == DType::f32, "{} into {}", to_string(args.x),
                   to_string(args.out));
      return launch<X, float>(p, wide, stream);
    }
  });
}

}  // namespace tandem::cuda
