// The sampling operation of gpu/ops.h on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "base/status.h"
#include "gpu/cuda/base/device_memory.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// One per stream, as operations of one object share its scratch. Not thread-safe.
class Sampler {
 public:
  static Result<std::unique_ptr<Sampler>> create();

  // Enqueues two kernels (for more rows than fit into the scratch, two for every part of them);
  // never allocates or synchronises. The tokens are the same whatever else is in the batch and
  // however often it runs. Logits of rows with biases or penalties may be overwritten. Shapes that
  // do not match are the caller's bug (TANDEM_CHECK).
  Status run(const SampleArgs& args, cudaStream_t stream);

 private:
  explicit Sampler(DeviceMemory partials) : partials_(std::move(partials)) {}

  DeviceMemory partials_;
};

}  // namespace tandem::cuda
