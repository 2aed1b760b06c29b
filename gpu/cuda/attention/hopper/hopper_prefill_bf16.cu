#include "gpu/cuda/attention/hopper/hopper_prefill.cuh"

namespace tandem::cuda {

Status prepare_hopper_bf16() {
  return prepare_hopper<cutlass::bfloat16_t>();
}
Status launch_hopper_bf16(const HopperPrefillArgs& args, cudaStream_t stream) {
  return launch_hopper<cutlass::bfloat16_t>(args, stream);
}

}  // namespace tandem::cuda
