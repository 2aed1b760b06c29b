#include "gpu/cuda/lora/kernels/sgmv.cuh"

namespace tandem::cuda {

cudaError_t launch_sgmv_f16(const LoraParams& params, const LoraCut& cut, cudaStream_t stream) {
  return params.page_base != nullptr ? launch_sgmv<__half, true>(params, cut, stream)
                                     : launch_sgmv<__half, false>(params, cut, stream);
}

}  // namespace tandem::cuda
