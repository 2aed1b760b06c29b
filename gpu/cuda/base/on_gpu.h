// Selects another GPU for a few calls.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/cuda/base/cuda_status.h"

namespace tandem::cuda {

// Changes the calling thread's current GPU for the lifetime of this object.
class OnGpu {
 public:
  explicit OnGpu(int gpu) {
    (void)cudaGetDevice(&before_);
    code_ = cudaSetDevice(gpu);
  }
  ~OnGpu() { (void)cudaSetDevice(before_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  Status status() const { return cuda_status(code_, "cudaSetDevice"); }

 private:
  int before_ = 0;
  cudaError_t code_ = cudaSuccess;
};

}  // namespace tandem::cuda
