// logits = softcap tanh(multiplier logits / softcap), in place. Grid: rows x chunks of a row; bound
// by memory.
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 256;

struct ScaleLogitsParams {
  float* logits;
  std::int64_t stride;
  std::int64_t width;
  float multiplier;
  float softcap;
};

__global__ void scale_logits(ScaleLogitsParams p) {
  allow_next_kernel();
  const std::int64_t i = std::int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (i >= p.width) return;
  wait_for_previous_kernels();
  float* const logit = p.logits + std::int64_t{blockIdx.x} * p.stride + i;
  const float value = *logit * p.multiplier;
  *logit = p.softcap == 0 ? value : p.softcap * tanhf(value / p.softcap);
}

}  // namespace

Status launch_scale_logits(const ScaleLogitsArgs& args, cudaStream_t stream) {
  if (args.logits.num_elements() == 0) return {};
  const ScaleLogitsParams p{static_cast<float*>(args.logits.data), args.logits.stride[0],
                            args.logits.cols(), args.multiplier, args.softcap};
  const dim3 grid(static_cast<unsigned>(args.logits.rows()),
                  static_cast<unsigned>(ceil_div(p.width, kThreads)));
  return launch_kernel("scale_logits", {.grid = grid, .block = dim3(kThreads), .overlap = true},
                       stream, scale_logits, p);
}

}  // namespace tandem::cuda
