// Launches a kernel and returns its errors as Status. Where the GPU has it (sm_90 on), it uses
// programmatic dependent launch: the kernel's blocks may be placed while the previous kernel of the
// stream still runs, which hides about 0.3 us of every launch in a captured step.
//
// A kernel that is launched with `overlap` must call wait_for_previous_kernels() in every thread
// before it touches memory that an earlier kernel of the stream wrote, reads or may still read.
// Buffers are reused from layer to layer, so that is all memory but weights, the kernel's own
// parameters, data that upload.cu has copied for this step, and keys of earlier steps. It may call
// allow_next_kernel() at any time, even at its very beginning: the next kernel's wait lasts until
// this one has ended anyway. The call only decides when the next blocks take up room.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "gpu/cuda/base/cuda_status.h"
#ifdef __CUDACC__
#include "gpu/cuda/base/launch_order.cuh"
#endif

namespace tandem::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;  // above 48 KiB, set the kernel's attribute before the launch
  bool overlap = false;
  dim3 cluster = 1;  // blocks per cluster; sm_90 on
};

// Enqueues; never allocates or synchronises. `what` names the operation in the error. In a capture,
// the dependency is recorded too.
template <typename... Params, typename... Args>
Status launch_kernel(std::string_view what, const LaunchShape& shape, cudaStream_t stream,
                     void (*kernel)(Params...), Args&&... args) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config{};
  if (shape.overlap && gpu_overlaps_kernels()) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster.x * shape.cluster.y * shape.cluster.z > 1) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = shape.cluster.x;
    attribute.val.clusterDim.y = shape.cluster.y;
    attribute.val.clusterDim.z = shape.cluster.z;
  }
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  return cuda_status(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), what);
}

}  // namespace tandem::cuda
