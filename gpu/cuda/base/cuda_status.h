// Converts CUDA's error codes to Status.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "base/status.h"

namespace tandem::cuda {

// `what` names the call or the operation. Out of memory becomes resource_exhausted; all other codes
// become internal and, mostly, mean that the context is lost.
Status cuda_status(cudaError_t code, std::string_view what);

// True if the current GPU has programmatic dependent launch (sm_90 on). The driver is asked only
// once, as a process uses one kind of GPU.
bool gpu_overlaps_kernels();

}  // namespace tandem::cuda
