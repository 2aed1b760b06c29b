#include "gpu/cuda/base/cuda_status.h"

namespace tandem::cuda {

Status cuda_status(cudaError_t code, std::string_view what) {
  if (code == cudaSuccess) return {};
  return error(
      code == cudaErrorMemoryAllocation ? StatusCode::resource_exhausted : StatusCode::internal,
      "CUDA: {} failed: {} ({})", what, cudaGetErrorString(code), cudaGetErrorName(code));
}

}  // namespace tandem::cuda
