#include "gpu/cuda/lora/kernels/params.h"
#include "gpu/cuda/lora/kernels/plan.h"

namespace tandem::cuda {
namespace {

cudaError_t this_gpu(LoraGpu& gpu) {
  int device = 0;
  const cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  // The runtime caches the attribute, so this is only a table look-up.
  return cudaDeviceGetAttribute(&gpu.major, cudaDevAttrComputeCapabilityMajor, device);
}

}  // namespace

cudaError_t enqueue_lora(const LoraParams& params, LoraKernel kernel, bool overlap,
                         cudaStream_t stream) {
  LoraGpu gpu;
  if (const cudaError_t error = this_gpu(gpu); error != cudaSuccess) return error;
  LoraCut cut = plan_lora(params, gpu, kernel);
  cut.overlap = cut.overlap && overlap;
  return launch_cut(params, cut, stream);
}

cudaError_t launch_cut(const LoraParams& params, const LoraCut& cut, cudaStream_t stream) {
  if (params.num_rows == 0 || params.num_modules == 0 || params.max_rank == 0) return cudaSuccess;
  if (params.segments != nullptr && (params.num_segments == 0 || params.max_count == 0)) {
    return cudaSuccess;
  }
  if (cut.tile_rows == 0) return launch_lora_plain(params, cut.overlap, stream);
  if (params.half != LoraHalf::both) {
    return params.type == LoraType::bf16 ? launch_half_bf16(params, cut, stream)
                                         : launch_half_f16(params, cut, stream);
  }
  if (cut.tile_rows > 8) {
    return params.type == LoraType::bf16 ? launch_sgmv_bf16(params, cut, stream)
                                         : launch_sgmv_f16(params, cut, stream);
  }
  return params.type == LoraType::bf16 ? launch_lora_bf16(params, cut, stream)
                                       : launch_lora_f16(params, cut, stream);
}

}  // namespace tandem::cuda
