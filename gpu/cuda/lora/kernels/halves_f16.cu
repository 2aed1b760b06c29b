#include "gpu/cuda/lora/kernels/halves.cuh"

namespace tandem::cuda {

cudaError_t launch_half_f16(const LoraParams& params, const LoraCut& cut, cudaStream_t stream) {
  return params.page_base != nullptr ? launch_half<__half, true>(params, cut, stream)
                                     : launch_half<__half, false>(params, cut, stream);
}

}  // namespace tandem::cuda
