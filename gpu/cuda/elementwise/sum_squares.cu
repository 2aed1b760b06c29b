// out[t] = sum of x[t]^2. A block per row; bound by memory, few rows by latency.
#include <algorithm>

#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr std::int64_t kMostThreads = 512;

struct SquaresParams {
  const void* x;
  std::int64_t x_stride;
  float* out;
  std::int64_t out_stride;
  std::int32_t width;
};

template <typename X, int V>
__global__ void sum_squares(SquaresParams p) {
  allow_next_kernel();
  __shared__ float sums[kMostThreads / 32];
  const std::int64_t row = blockIdx.x;
  const X* const x = static_cast<const X*>(p.x) + row * p.x_stride;
  wait_for_previous_kernels();
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x) * V; i < p.width;
       i += static_cast<int>(blockDim.x) * V) {
    float values[V];
    load_row<V>(x + i, values);
#pragma unroll
    for (int j = 0; j < V; ++j) sum += values[j] * values[j];
  }
  sum = block_sum(sum, sums);
  if (threadIdx.x == 0) p.out[row * p.out_stride] = sum;
}

}  // namespace

Status launch_sum_squares(const SumSquaresArgs& args, cudaStream_t stream) {
  if (args.x.num_elements() == 0) return {};
  const SquaresParams p{args.x.data, args.x.stride[0], static_cast<float*>(args.out.data),
                        args.out.stride[0], static_cast<std::int32_t>(args.x.cols())};
  const bool wide = rows_aligned(args.x) && p.width % kRowVector == 0;
  const std::int64_t loads = ceil_div(p.width, wide ? kRowVector : 1);
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(args.x.rows())),
      .block = dim3(static_cast<unsigned>(std::min(ceil_div(loads, 32) * 32, kMostThreads))),
      .overlap = true};
  return dispatch_dtype(args.x.dtype, [&](auto type) {
    using X = typename decltype(type)::type;
    const char* const what = "sum_squares";
    return wide ? launch_kernel(what, shape, stream, sum_squares<X, kRowVector>, p)
                : launch_kernel(what, shape, stream, sum_squares<X, 1>, p);
  });
}

}  // namespace tandem::cuda
