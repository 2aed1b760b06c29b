#include "gpu/cuda/lora/kernels/fused.cuh"

namespace tandem::cuda {

cudaError_t launch_lora_bf16(const LoraParams& params, const LoraCut& cut, cudaStream_t stream) {
  return params.page_base != nullptr ? launch_fused<__nv_bfloat16, true>(params, cut, stream)
                                     : launch_fused<__nv_bfloat16, false>(params, cut, stream);
}

}  // namespace tandem::cuda
