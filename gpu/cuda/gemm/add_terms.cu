// y = (y) + (product) + (bias). One thread per element, blocks of one row; bound by memory. Models
// without biases do not use it.
#include <cstdint>

#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/element.cuh"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/gemm/add_terms.h"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 256;

template <typename Bias, typename Y>
__global__ void add_terms(const float* product, const Bias* bias, Y* y, std::int64_t stride,
                          int size, bool accumulate) {
  const int i = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= size) return;
  const std::int64_t row = blockIdx.x;
  Y& value = y[row * stride + i];
  float sum = accumulate ? to_float(value) : 0.0F;
  if (product != nullptr) sum += product[row * size + i];
  if (bias != nullptr) sum += to_float(bias[i]);
  value = from_float<Y>(sum);
}

}  // namespace

Status launch_add_terms(const TensorView& product, const TensorView& bias, const TensorView& y,
                        bool accumulate, cudaStream_t stream) {
  if (y.num_elements() == 0) return {};
  const auto size = static_cast<int>(y.cols());
  const dim3 grid(static_cast<unsigned>(y.rows()),
                  static_cast<unsigned>((size + kThreads - 1) / kThreads));
  const DType bias_dtype = bias.rank > 0 ? bias.dtype : y.dtype;
  return dispatch_dtype(bias_dtype, [&](auto bias_type) {
    using Bias = typename decltype(bias_type)::type;
    const auto launch = [&](auto y_type) {
      using Y = typename decltype(y_type)::type;
      return launch_kernel("bias of a GEMM", {grid, kThreads}, stream, add_terms<Bias, Y>,
                           static_cast<const float*>(product.data),
                           static_cast<const Bias*>(bias.data), static_cast<Y*>(y.data),
                           y.stride[0], size, accumulate);
    };
    return y.dtype == DType::f32 ? launch(std::type_identity<float>{})
                                 : launch(std::type_identity<Bias>{});
  });
}

}  // namespace tandem::cuda
