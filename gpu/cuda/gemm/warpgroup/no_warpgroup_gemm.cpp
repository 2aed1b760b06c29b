// The functions of this kernel in a build without code for sm_90.
#include "gpu/cuda/gemm/warpgroup/warpgroup_gemm.h"

namespace tandem::cuda {

Result<WarpgroupDevice> prepare_warpgroup_gemm() {
  return WarpgroupDevice{};
}

Status launch_warpgroup_gemm(const GemmArgs&, const WarpgroupDevice&, cudaStream_t, GemmEnd) {
  return error(StatusCode::internal, "this build has no code for sm_90");
}

}  // namespace tandem::cuda
