// The tiled kernel for f16: one file per dtype, so that they compile in parallel.
#include "gpu/cuda/attention/instances.h"
#include "gpu/cuda/attention/tiled.cuh"

namespace tandem::cuda {

Status launch_tiled_f16(const TiledArgs& args, cudaStream_t stream) {
  switch (args.attention.head_dim) {
    case 64:
      return launch_tiled<__half, 64>(args, stream);
    case 96:
      return launch_tiled<__half, 96>(args, stream);
    case 128:
      return launch_tiled<__half, 128>(args, stream);
    case 256:
      return launch_tiled<__half, 256>(args, stream);
    default:
      return launch_tiled<__half, 512>(args, stream);
  }
}

Status prepare_tiled_f16() {
  TANDEM_TRY((prepare_tiled<__half, 64>()));
  TANDEM_TRY((prepare_tiled<__half, 96>()));
  TANDEM_TRY((prepare_tiled<__half, 128>()));
  TANDEM_TRY((prepare_tiled<__half, 256>()));
  return prepare_tiled<__half, 512>();
}

}  // namespace tandem::cuda
