// out[t, i] = activation(gate[t, i]) * up[t, i], where gate and up may be halves of one row. Grid:
// rows x chunks of a row, 8 results a thread; bound by memory (6 bytes a result in half precision).
#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/activation.cuh"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 128;

struct SwigluParams {
  const void* gate;
  std::int64_t gate_stride;
  const void* up;
  std::int64_t up_stride;
  void* out;
  std::int64_t out_stride;
  std::int64_t ffn;
};

template <typename T, typename Y, int V, Activation activation>
__global__ void swiglu(SwigluParams p) {
  allow_next_kernel();
  const std::int64_t i = (std::int64_t{blockIdx.y} * kThreads + threadIdx.x) * V;
  if (i >= p.ffn) return;
  wait_for_previous_kernels();
  const std::int64_t t = blockIdx.x;
  float gate[V];
  float up[V];
  load_row<V>(static_cast<const T*>(p.gate) + t * p.gate_stride + i, gate);
  load_row<V>(static_cast<const T*>(p.up) + t * p.up_stride + i, up);
#pragma unroll
  for (int j = 0; j < V; ++j) up[j] *= activate<activation>(gate[j]);
  store_row<V>(static_cast<Y*>(p.out) + t * p.out_stride + i, up);
}

template <typename T, typename Y, int V, Activation activation>
Status launch(const SwigluParams& p, std::int64_t rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows),
                  static_cast<unsigned>(ceil_div(ceil_div(p.ffn, V), kThreads)));
  return launch_kernel("swiglu", {.grid = grid, .block = dim3(kThreads), .overlap = true}, stream,
                       swiglu<T, Y, V, activation>, p);
}

}  // namespace

Status launch_swiglu(const SwigluArgs& args, cudaStream_t stream) {
  if (args.out.num_elements() == 0) return {};
  const TensorView& gate = args.gate_up;
  const std::int64_t ffn = args.out.cols();
  const TensorView up = args.up.rank == 0 ? gate.slice_cols(ffn, ffn) : args.up;
  const SwigluParams p{gate.data,     gate.stride[0],     up.data, up.stride[0],
                       args.out.data, args.out.stride[0], ffn};
  const bool wide =
      rows_aligned(gate) && rows_aligned(up) && rows_aligned(args.out) && ffn % kRowVector == 0;
  return dispatch_dtype(args.out.dtype, [&](auto type) {
    using Y = typename decltype(type)::type;
    const auto with_activation = [&]<typename T, Activation activation>() {
      return wide ? launch<T, Y, kRowVector, activation>(p, args.out.rows(), stream)
                  : launch<T, Y, 1, activation>(p, args.out.rows(), stream);
    };
    const auto with_input = [&]<typename T>() {
      return args.activation == Activation::silu
                 ? with_activation.template operator()<T, Activation::silu>()
                 : with_activation.template operator()<T, Activation::gelu_tanh>();
    };
    if (gate.dtype == args.out.dtype) return with_input.template operator()<Y>();
    TANDEM_CHECK(gate.dtype == DType::f32, "{} into {}", to_string(gate), to_string(args.out));
    return with_input.template operator()<float>();
  });
}

}  // namespace tandem::cuda
