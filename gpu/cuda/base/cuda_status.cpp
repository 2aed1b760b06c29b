#include "gpu/cuda/base/cuda_status.h"

namespace tandem::cuda {

Status cuda_status(cudaError_t code, std::string_view what) {
  if (code == cudaSuccess) return {};
  return error(
      code == cudaErrorMemoryAllocation ? StatusCode::resource_exhausted : StatusCode::internal,
      "CUDA: {} failed: {} ({})", what, cudaGetErrorString(code), cudaGetErrorName(code));
}

bool gpu_overlaps_kernels() {
  static const bool answer = [] {
    int device = 0;
    int major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           major >= 9;
  }();
  return answer;
}

}  // namespace tandem::cuda
