// The kernel's instances by dtype, each in a file of its own.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/cuda/attention/hopper/hopper_prefill.h"

namespace tandem::cuda {

Status prepare_hopper_bf16();
Status prepare_hopper_f16();
Status launch_hopper_bf16(const HopperPrefillArgs& args, cudaStream_t stream);
Status launch_hopper_f16(const HopperPrefillArgs& args, cudaStream_t stream);

}  // namespace tandem::cuda
