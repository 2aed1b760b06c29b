// out[t, i] = x[t, order[i]]. Grid: rows x chunks of a row; bound by latency.
#include <cstdint>

#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/packed/gather_columns.h"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void gather_columns(const std::uint16_t* x, std::int64_t x_stride,
                               const std::int32_t* order, std::uint16_t* out, std::int64_t width) {
  allow_next_kernel();
  const std::int64_t i = std::int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (i >= width) return;
  const std::int32_t column = order[i];
  wait_for_previous_kernels();
  out[blockIdx.x * width + i] = x[blockIdx.x * x_stride + column];
}

}  // namespace

Status launch_gather_columns(const TensorView& x, const std::int32_t* order, const TensorView& out,
                             cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(x.rows()),
                  static_cast<unsigned>((x.cols() + kThreads - 1) / kThreads));
  return launch_kernel("columns in a weight's order",
                       {.grid = grid, .block = dim3(kThreads), .overlap = true}, stream,
                       gather_columns, static_cast<const std::uint16_t*>(x.data), x.stride[0],
                       order, static_cast<std::uint16_t*>(out.data), out.cols());
}

}  // namespace tandem::cuda
