#include "gpu/cuda/lora/kernels/halves.cuh"

namespace tandem::cuda {

cudaError_t launch_half_bf16(const LoraParams& params, const LoraCut& cut, cudaStream_t stream) {
  return params.page_base != nullptr ? launch_half<__nv_bfloat16, true>(params, cut, stream)
                                     : launch_half<__nv_bfloat16, false>(params, cut, stream);
}

}  // namespace tandem::cuda
