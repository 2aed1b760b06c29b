#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>

#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/base/element.cuh"
#include "tools/bench/kernels/gemm_reference.h"

namespace tandem::kernels {
namespace {

constexpr int kWarps = 8;

template <typename Y>
__global__ void compare_gemm(const __nv_bfloat16* x, const __nv_bfloat16* w, const Y* before,
                             const Y* y, int in, int out, float absolute, float relative,
                             float* worst) {
  const int o = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int t = static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (o >= out) return;
  float want = 0;
  for (int i = lane; i < in; i += 32) {
    want +=
        cuda::to_float(x[std::int64_t{t} * in + i]) * cuda::to_float(w[std::int64_t{o} * in + i]);
  }
  for (int step = 16; step > 0; step /= 2) want += __shfl_xor_sync(0xffffffffU, want, step);
  if (lane != 0) return;
  const std::int64_t at = std::int64_t{t} * out + o;
  if (before != nullptr) want += cuda::to_float(before[at]);
  const float got = cuda::to_float(y[at]);
  float error = fabsf(got - want) / (absolute + relative * fabsf(want));
  if (!(error <= 3e38F)) error = INFINITY;
  // Errors are not negative, so their bits have the same order as their values.
  atomicMax(reinterpret_cast<int*>(worst), __float_as_int(error));
}

template <typename Y>
void launch_compare(const GemmArgs& args, const void* before, float absolute, float relative,
                    float* worst, cudaStream_t stream) {
  const auto in = static_cast<int>(args.x.cols());
  const auto out = static_cast<int>(args.w.rows());
  const dim3 grid(static_cast<unsigned>((out + kWarps - 1) / kWarps),
                  static_cast<unsigned>(args.x.rows()));
  compare_gemm<<<grid, kWarps * 32, 0, stream>>>(
      static_cast<const __nv_bfloat16*>(args.x.data),
      static_cast<const __nv_bfloat16*>(args.w.data.data),
      static_cast<const Y*>(args.accumulate ? before : nullptr), static_cast<const Y*>(args.y.data),
      in, out, absolute, relative, worst);
}

}  // namespace

Status judge_gemm(const GemmArgs& args, const void* before, float absolute, float relative,
                  float* worst, cudaStream_t stream) {
  TANDEM_TRY(cuda::cuda_status(cudaMemsetAsync(worst, 0, sizeof(float), stream), "judging"));
  if (args.y.dtype == DType::f32) {
    launch_compare<float>(args, before, absolute, relative, worst, stream);
  } else {
    launch_compare<__nv_bfloat16>(args, before, absolute, relative, worst, stream);
  }
  return cuda::cuda_status(cudaPeekAtLastError(), "judging a GEMM");
}

}  // namespace tandem::kernels
