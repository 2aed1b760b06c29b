#include "gpu/cuda/attention/hopper/hopper_prefill.cuh"

namespace tandem::cuda {

Status prepare_hopper_f16() {
  return prepare_hopper<cutlass::half_t>();
}
Status launch_hopper_f16(const HopperPrefillArgs& args, cudaStream_t stream) {
  return launch_hopper<cutlass::half_t>(args, stream);
}

}  // namespace tandem::cuda
