#include "gpu/cuda/lora/fused.cuh"

namespace tandem::cuda {

cudaError_t launch_lora_bf16(const LoraParams& params, const LoraCut& cut, cudaStream_t stream) {
  return cut.tile_rows == 64 ? launch_fused<__nv_bfloat16, 4>(params, cut, stream)
                             : launch_fused<__nv_bfloat16, 1>(params, cut, stream);
}

}  // namespace tandem::cuda
