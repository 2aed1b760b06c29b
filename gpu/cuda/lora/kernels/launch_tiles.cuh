// Launches a LoRA kernel over tiles of rows: sets attributes, clusters and dependent launch.
#pragma once

#include <cstddef>

#include "gpu/cuda/lora/kernels/params.h"
#include "gpu/cuda/lora/kernels/tile.cuh"

namespace tandem::cuda {

// Lets `kKernel` use all the shared memory that the current device allows per block, and clusters
// of 16; sets `most` to these bytes. The attributes belong to the device and are set once instead
// of at every launch. They are remembered per thread, which avoids a lock; a thread that has
// switched to another device sets them there.
template <auto kKernel>
cudaError_t prepare_kernel(const LoraCut& cut, int& most) {
  static thread_local int prepared_device = -1;
  static thread_local int prepared_most = 0;
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  if (prepared_device != device) {
    error = cudaDeviceGetAttribute(&prepared_most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error != cudaSuccess) return error;
    error =
        cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, prepared_most);
    if (error != cudaSuccess) return error;
    error = cudaFuncSetAttribute(kKernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error != cudaSuccess && cut.log_cluster > 3) return error;
    prepared_device = device;
  }
  most = prepared_most;
  return cudaSuccess;
}

// Grid: (cluster x splits, modules, tiles of cut.tile_rows or pairs of them).
template <auto kKernel, typename Cut>
cudaError_t launch_tiles(const LoraParams& p, Cut cut, int threads, int shared_bytes,
                         cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(cut.blocks());
  cudaLaunchAttribute attributes[2] = {};
  unsigned num_attributes = 0;
  if (blocks > 1) {
    attributes[num_attributes].id = cudaLaunchAttributeClusterDimension;
    attributes[num_attributes].val.clusterDim.x = blocks;
    attributes[num_attributes].val.clusterDim.y = 1;
    attributes[num_attributes].val.clusterDim.z = 1;
    ++num_attributes;
  }
  if (cut.overlap) {
    attributes[num_attributes].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[num_attributes].val.programmaticStreamSerializationAllowed = 1;
    ++num_attributes;
  }
  cudaLaunchConfig_t config{};
  const std::int32_t tiles = tile_bound(p, cut.tile_rows);
  std::int32_t pairs = 0;
  if (cut.paired >= 0) {
    cut.paired += (tiles - cut.paired) % 2;  // an odd tile gets a cluster of its own
    pairs = (tiles - cut.paired) / 2;
  }
  config.gridDim = dim3(blocks << cut.log_splits, static_cast<unsigned>(p.num_modules),
                        static_cast<unsigned>(tiles - pairs));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = num_attributes;
  return cudaLaunchKernelEx(&config, kKernel, p, cut);
}

}  // namespace tandem::cuda
