// y[t, i] = (y[t, i] +) bias[i]. One thread an element, blocks of one row; bound by memory, and far
// off the path of the large models: they have no biases on the products that add to f32.
#include <cstdint>

#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/element.cuh"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/gemm/add_bias.h"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 256;

template <typename Bias, typename Y>
__global__ void add_bias(const Bias* bias, Y* y, std::int64_t stride, int size, bool accumulate) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= size) return;
  Y& value = y[blockIdx.y * stride + i];
  value = from_float<Y>((accumulate ? to_float(value) : 0.0F) + to_float(bias[i]));
}

}  // namespace

Status launch_add_bias(const TensorView& bias, const TensorView& y, bool accumulate,
                       cudaStream_t stream) {
  if (y.num_elements() == 0) return {};
  const auto size = static_cast<int>(y.cols());
  const dim3 grid(static_cast<unsigned>((size + kThreads - 1) / kThreads),
                  static_cast<unsigned>(y.rows()));
  return dispatch_dtype(bias.dtype, [&](auto bias_type) {
    using Bias = typename decltype(bias_type)::type;
    return dispatch_dtype(y.dtype, [&](auto y_type) {
      using Y = typename decltype(y_type)::type;
      return launch_kernel("bias of a GEMM", {grid, kThreads}, stream, add_bias<Bias, Y>,
                           static_cast<const Bias*>(bias.data), static_cast<Y*>(y.data),
                           y.stride[0], size, accumulate);
    });
  });
}

}  // namespace tandem::cuda
