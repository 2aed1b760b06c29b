// CUDA's error codes as Status.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "base/status.h"

namespace tandem::cuda {

// `what` names the call or the operation. Out of memory is resource_exhausted; anything else is
// internal and, for most codes, means that the context is lost.
Status cuda_status(cudaError_t code, std::string_view what);

// The current GPU has programmatic dependent launch (sm_90 on). Asked of the driver once: a process
// uses one kind of GPU.
bool gpu_overlaps_kernels();

}  // namespace tandem::cuda
