// The kernels' instances by dtype, each in a file of its own.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/cuda/attention/kernels.h"

namespace tandem::cuda {

Status launch_tiled_bf16(const TiledArgs& args, cudaStream_t stream);
Status launch_tiled_f16(const TiledArgs& args, cudaStream_t stream);
Status prepare_tiled_bf16();
Status prepare_tiled_f16();
Status launch_prefill_bf16(const PrefillArgs& args, cudaStream_t stream);
Status launch_prefill_f16(const PrefillArgs& args, cudaStream_t stream);

}  // namespace tandem::cuda
