// out[t, i] = activation(gate_up[t, i]) * gate_up[t, ffn + i]. Grid: rows x chunks of a row, 8
// results a thread; bound by memory (6 bytes a result in half precision).
#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/activation.cuh"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 128;

struct SwigluParams {
  const void* gate_up;
  std::int64_t in_stride;
  void* out;
  std::int64_t out_stride;
  std::int64_t ffn;
};

template <typename T, int V, Activation activation>
__global__ void swiglu(SwigluParams p) {
  allow_next_kernel();
  const std::int64_t i = (std::int64_t{blockIdx.y} * kThreads + threadIdx.x) * V;
  if (i >= p.ffn) return;
  wait_for_previous_kernels();
  const std::int64_t t = blockIdx.x;
  const T* gate_row = static_cast<const T*>(p.gate_up) + t * p.in_stride + i;
  float gate[V];
  float up[V];
  load_row<V>(gate_row, gate);
  load_row<V>(gate_row + p.ffn, up);
#pragma unroll
  for (int j = 0; j < V; ++j) up[j] *= activate<activation>(gate[j]);
  store_row<V>(static_cast<T*>(p.out) + t * p.out_stride + i, up);
}

template <typename T, int V, Activation activation>
Status launch(const SwigluParams& p, std::int64_t rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows),
                  static_cast<unsigned>(ceil_div(ceil_div(p.ffn, V), kThreads)));
  return launch_kernel("swiglu", {.grid = grid, .block = dim3(kThreads), .overlap = true}, stream,
                       swiglu<T, V, activation>, p);
}

}  // namespace

Status launch_swiglu(const SwigluArgs& args, cudaStream_t stream) {
  if (args.out.num_elements() == 0) return {};
  TANDEM_CHECK(args.out.dtype == args.gate_up.dtype, "{} into {}", to_string(args.gate_up),
               to_string(args.out));
  const SwigluParams p{args.gate_up.data, args.gate_up.stride[0], args.out.data, args.out.stride[0],
                       args.out.cols()};
  // A multiple of 8 also puts the up half at a multiple of 16 bytes.
  const bool wide = rows_aligned(args.gate_up) && rows_aligned(args.out) && p.ffn % kRowVector == 0;
  return dispatch_dtype(args.out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto with_activation = [&]<Activation activation>() {
      return wide ? launch<T, kRowVector, activation>(p, args.out.rows(), stream)
                  : launch<T, 1, activation>(p, args.out.rows(), stream);
    };
    return args.activation == Activation::silu
               ? with_activation.template operator()<Activation::silu>()
               : with_activation.template operator()<Activation::gelu_tanh>();
  });
}

}  // namespace tandem::cuda
