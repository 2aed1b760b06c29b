// Owns device memory for an operation's own state.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "gpu/cuda/base/cuda_status.h"

namespace tandem::cuda {

struct DeviceMemoryRelease {
  void operator()(std::byte* data) const { cudaFree(data); }
};
using DeviceMemory = std::unique_ptr<std::byte, DeviceMemoryRelease>;

inline Result<DeviceMemory> allocate_device_memory(std::size_t bytes, std::string_view purpose) {
  void* data = nullptr;
  TANDEM_TRY(cuda_status(cudaMalloc(&data, bytes), purpose));
  return DeviceMemory(static_cast<std::byte*>(data));
}

}  // namespace tandem::cuda
