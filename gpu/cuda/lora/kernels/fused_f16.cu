#include "gpu/cuda/lora/kernels/fused.cuh"

namespace tandem::cuda {

cudaError_t launch_lora_f16(const LoraParams& params, const LoraCut& cut, cudaStream_t stream) {
  return params.page_base != nullptr ? launch_fused<__half, true>(params, cut, stream)
                                     : launch_fused<__half, false>(params, cut, stream);
}

}  // namespace tandem::cuda
