// The functions of Hopper's kernel in a build without code for sm_90.
#include "gpu/cuda/attention/hopper/hopper_prefill.h"

namespace tandem::cuda {

std::int32_t hopper_prefill_rows(DType, std::int64_t, bool) {
  return 0;
}

Status prepare_hopper_prefill() {
  return {};
}

Status launch_hopper_prefill(const HopperPrefillArgs&, cudaStream_t) {
  return error(StatusCode::internal, "this build has no code for sm_90");
}

}  // namespace tandem::cuda
