// The tiled kernel for bf16: one file per dtype, so that they compile in parallel.
#include "gpu/cuda/attention/instances.h"
#include "gpu/cuda/attention/tiled.cuh"

namespace tandem::cuda {

Status launch_tiled_bf16(const TiledArgs& args, cudaStream_t stream) {
  switch (args.attention.head_dim) {
    case 64:
      return launch_tiled<__nv_bfloat16, 64>(args, stream);
    case 96:
      return launch_tiled<__nv_bfloat16, 96>(args, stream);
    case 128:
      return launch_tiled<__nv_bfloat16, 128>(args, stream);
    case 256:
      return launch_tiled<__nv_bfloat16, 256>(args, stream);
    default:
      return launch_tiled<__nv_bfloat16, 512>(args, stream);
  }
}

Status prepare_tiled_bf16() {
  TANDEM_TRY((prepare_tiled<__nv_bfloat16, 64>()));
  TANDEM_TRY((prepare_tiled<__nv_bfloat16, 96>()));
  TANDEM_TRY((prepare_tiled<__nv_bfloat16, 128>()));
  TANDEM_TRY((prepare_tiled<__nv_bfloat16, 256>()));
  return prepare_tiled<__nv_bfloat16, 512>();
}

}  // namespace tandem::cuda
