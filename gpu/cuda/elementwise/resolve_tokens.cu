// values[i] = previous[-1 - values[i]].token where values[i] < 0. One thread per value.
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void resolve_tokens(ResolveTokensArgs args) {
  allow_next_kernel();
  const std::int32_t i = static_cast<std::int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= args.count) return;
  wait_for_previous_kernels();
  const std::int32_t value = args.values[i];
  if (value < 0) args.values[i] = args.previous[-1 - value].token;
}

}  // namespace

Status launch_resolve_tokens(const ResolveTokensArgs& args, cudaStream_t stream) {
  if (args.count == 0) return {};
  const dim3 grid(static_cast<unsigned>(ceil_div(args.count, kThreads)));
  return launch_kernel("resolve_tokens", {.grid = grid, .block = dim3(kThreads), .overlap = true},
                       stream, resolve_tokens, args);
}

}  // namespace tandem::cuda
